// Creates a pet, exactly one, however often the request has to be sent.
package main

import (
	crand "crypto/rand"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net/http"
	"os"
	"strconv"
	"strings"
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
		// Without a response: was the pet created? The key makes it safe to ask again.
		if attempt == attempts-1 || !mayPass || pause > 2*time.Minute {
			return "", err
		}
		time.Sleep(pause + time.Duration(rand.Int63n(int64(time.Second))))
	}
}

func main() {
	random := make([]byte, 16)
	if _, err := crand.Read(random); err != nil {
		log.Fatal(err)
	}
	// Once for the pet, not once for each attempt. If your program may restart,
	// store the key with the pet first.
	key := fmt.Sprintf("%x", random)
	body := strings.NewReader(`{"name":"Rex","categoryId":7,"status":"available"}`)
	request, err := http.NewRequest("POST", os.Getenv("PETSTORE_URL")+"/pets", body)
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("PETSTORE_API_KEY"))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", key)
	pet, err := send(request, 6)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pet)
}
