package main

import (
	"fmt"
	"io"
	"log"
	"math/rand"
	"net/http"
	"os"
	"strconv"
	"time"
)

var client = http.Client{Timeout: 10 * time.Second}

// Statuses with which the same request may succeed later, even without Retry-After.
var transient = map[int]bool{408: true, 500: true, 502: true, 503: true, 504: true}

// send sends a request that may be repeated, waits as the service says, and
// returns the response's body.
func send(request *http.Request, attempts int) (string, error) {
	for attempt := 0; ; attempt++ {
		if request.GetBody != nil {
			request.Body, _ = request.GetBody() // each attempt reads it
		}
		pause, mayPass := time.Second<<attempt, true
		response, err := client.Do(request)
		var body []byte
		if err == nil {
			body, err = io.ReadAll(response.Body)
			response.Body.Close()
		}
		if err == nil {
			if response.StatusCode < 300 {
				return string(body), nil
			}
			seconds, notGiven := strconv.Atoi(response.Header.Get("Retry-After"))
			if told := time.Duration(seconds) * time.Second; told > pause {
				pause = told
			}
			mayPass = notGiven == nil || transient[response.StatusCode]
			err = fmt.Errorf("%s %s", response.Status, body)
		}
		// The day's limit, or a ban, may last for hours: do not sleep that long.
		if attempt == attempts-1 || !mayPass || pause > 2*time.Minute {
			return "", err
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
	pets, err := send(request, 6)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pets)
}
