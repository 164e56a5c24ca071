// Adds a pet, exactly one, however often the request has to be sent.
package main

import (
	"crypto/rand"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"
)

var client = http.Client{Timeout: 10 * time.Second}

// add sends the request once.
func add(key string) (status int, body string, err error) {
	pet := strings.NewReader(`{"name":"Rex","categoryId":7,"status":"available"}`)
	request, err := http.NewRequest("POST", os.Getenv("PETSTORE_URL")+"/pets", pet)
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("PETSTORE_API_KEY"))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", key)
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

func main() {
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		log.Fatal(err)
	}
	key := fmt.Sprintf("%x", random) // once for the pet, not once for each attempt
	for attempt := 0; attempt < 6; attempt++ {
		status, body, err := add(key)
		if err == nil && status < 500 {
			if status != http.StatusCreated {
				log.Fatal(body)
			}
			fmt.Println(body)
			return
		}
		// The answer was lost: was the pet added? The key makes it safe to ask again.
		time.Sleep(time.Second << attempt)
	}
	log.Fatal("There is no answer.")
}
