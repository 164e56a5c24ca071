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

// Statuses without Retry-After with which the same request may succeed later.
var mayPass = map[int]bool{408: true, 500: true, 502: true, 504: true}

// send sends a request that may be repeated, and waits as the service says.
func send(request *http.Request, attempts int) (*http.Response, error) {
	for attempt := 0; ; attempt++ {
		pause := time.Second << attempt
		response, err := client.Do(request)
		isLast := attempt == attempts-1
		if err != nil && isLast {
			return nil, err
		}
		if err == nil {
			seconds, notGiven := strconv.Atoi(response.Header.Get("Retry-After"))
			if notGiven == nil {
				pause = time.Duration(seconds) * time.Second
			}
			if isLast || notGiven != nil && !mayPass[response.StatusCode] {
				return response, nil
			}
			response.Body.Close()
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
