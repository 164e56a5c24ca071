// Prints the name of every pet that can be bought.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"time"
)

type pet struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
}

var client = http.Client{Timeout: 10 * time.Second}

// page returns the pets of one page and the cursor of the next, which is empty
// after the last.
func page(query url.Values) (pets []pet, cursor string, err error) {
	request, err := http.NewRequest("GET", os.Getenv("PETSTORE_URL")+"/pets?"+query.Encode(), nil)
	if err != nil {
		return nil, "", err
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("PETSTORE_API_KEY"))
	response, err := client.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, "", fmt.Errorf("the answer is %s", response.Status)
	}
	err = json.NewDecoder(response.Body).Decode(&pets)
	return pets, response.Header.Get("X-Next-Cursor"), err
}

func main() {
	query := url.Values{"limit": {"100"}, "status": {"available"}}
	for {
		pets, cursor, err := page(query)
		if err != nil {
			log.Fatal(err)
		}
		for _, pet := range pets {
			fmt.Println(pet.Name)
		}
		if cursor == "" {
			return
		}
		query.Set("cursor", cursor)
	}
}
