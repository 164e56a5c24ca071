package main

import (
	"io"
	"log"
	"math/rand"
	"net/http"
	"os"
	"strconv"
	"time"
)

var client = http.Client{Timeout: 10 * time.Second}

// send sends a request that may be repeated, and waits as the service says.
func send(request *http.Request, attempts int) (*http.Response, error) {
	for attempt := 0; ; attempt++ {
		response, err := client.Do(request)
		if err != nil {
			return nil, err
		}
		seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
		mayHelp := err == nil || response.StatusCode >= 500
		if !mayHelp || attempt == attempts-1 {
			return response, nil
		}
		response.Body.Close()
		pause := time.Second << attempt
		if err == nil {
			pause = time.Duration(seconds) * time.Second
		}
		// At least what was asked for, and not all clients at the same moment.
		time.Sleep(pause + time.Duration(rand.Int63n(int64(time.Second))))
	}
}

func main() {
	request, err := http.NewRequest("GET", os.Getenv("PETSTORE_URL")+"/pets", nil)
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("PETSTORE_API_KEY"))
	response, err := send(request, 6)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		log.Fatal(response.Status)
	}
	if _, err := io.Copy(os.Stdout, response.Body); err != nil {
		log.Fatal(err)
	}
}
