// A small session with the generated Go client. `go vet` compiles both first.
package main

import (
	"context"
	"errors"
	"log"
	"math"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	petstore "session/client"
)

const (
	perMinute = 20 // of the account that testing/sdk/run makes
	page      = 2  // pets on a page
)

func main() {
	configuration := petstore.NewConfiguration()
	configuration.Servers = petstore.ServerConfigurations{{URL: os.Getenv("PETSTORE_BASE_URL")}}
	api := petstore.NewAPIClient(configuration).PetsAPI
	with := func(key string) context.Context {
		return context.WithValue(context.Background(), petstore.ContextAccessToken, key)
	}
	ctx := with(os.Getenv("PETSTORE_API_KEY"))

	create := func(name string, category int64, status petstore.PetStatus) *petstore.Pet {
		pet := petstore.NewPetToAdd(name, category)
		if status != "" {
			pet.SetStatus(status)
		}
		created, response, err := api.CreatePet(ctx).PetToAdd(*pet).Execute()
		check(err == nil && response.StatusCode == 201, "createPet", err)
		checkRateHeaders(response)
		return created
	}

	// Add three pets and fetch one.
	rex := create("Rex", 7, petstore.AVAILABLE)
	mia := create("Mía 🐈", math.MaxInt64, "")
	tom := create("Tom", 3, petstore.SOLD)
	check(mia.Name == "Mía 🐈" && mia.CategoryId == math.MaxInt64 && !mia.HasStatus(), "createPet", mia)
	fetched, _, err := api.GetPet(ctx, rex.Id).Execute()
	check(err == nil && fetched.Name == "Rex" && fetched.GetStatus() == petstore.AVAILABLE, "getPet", err)

	// Walk through the pages: the header X-Next-Cursor leads to the next one, and is absent on the last.
	var pets []petstore.Pet
	for cursor, request := "first", api.ListPets(ctx).Limit(page); cursor != ""; request = request.Cursor(cursor) {
		found, response, err := request.Execute()
		if err != nil {
			log.Fatal(err)
		}
		pets, cursor = append(pets, found...), response.Header.Get("X-Next-Cursor")
	}
	check(len(pets) == 3 && pets[0].Id == rex.Id && pets[1].Id == mia.Id && pets[2].Id == tom.Id, "pages", pets)
	sold, _, err := api.ListPets(ctx).Status(petstore.SOLD).Execute()
	check(err == nil && len(sold) == 1 && sold[0].Id == tom.Id, "listPets of a status", err)

	// Errors have a type, whatever the status.
	_, _, err = api.CreatePet(ctx).PetToAdd(*petstore.NewPetToAdd(" ", 1)).Execute()
	checkError(err, 400, "VALIDATION_FAILED")
	_, _, err = api.ListPets(ctx).Cursor("no-cursor").Execute()
	checkError(err, 400, "INVALID_CURSOR")
	_, stranger, err := api.ListPets(with("not-a-key")).Execute()
	checkError(err, 401, "INVALID_API_KEY")
	check(strings.HasPrefix(stranger.Header.Get("WWW-Authenticate"), "Bearer "), "WWW-Authenticate", stranger.Header)
	_, _, err = api.GetPet(ctx, 999_999).Execute()
	checkError(err, 404, "PET_NOT_FOUND")

	// Over the limit, the response says how long to wait.
	var refused *http.Response
	err = nil
	for calls := 0; err == nil && calls <= perMinute; calls++ {
		_, refused, err = api.ListPets(ctx).Execute()
	}
	checkError(err, 429, "RATE_LIMITED")
	checkRateHeaders(refused)
	check(refused.Header.Get("X-RateLimit-Remaining") == "0", "X-RateLimit-Remaining", refused.Header)
	wait, err := strconv.Atoi(refused.Header.Get("Retry-After"))
	check(err == nil && 1 <= wait && wait <= 60, "Retry-After", refused.Header)

	log.SetFlags(0)
	log.Print("the Go client: a whole session, typed")
}

func checkRateHeaders(response *http.Response) {
	check(response.Header.Get("X-RateLimit-Limit") == strconv.Itoa(perMinute), "X-RateLimit-Limit", response.Header)
	_, err := strconv.ParseUint(response.Header.Get("X-RateLimit-Remaining"), 10, 64)
	check(err == nil, "X-RateLimit-Remaining", response.Header)
	reset, err := strconv.ParseInt(response.Header.Get("X-RateLimit-Reset"), 10, 64)
	check(err == nil && reset >= time.Now().Unix()-1, "X-RateLimit-Reset", response.Header)
}

func checkError(err error, status int32, code string) {
	var failure *petstore.GenericOpenAPIError
	check(errors.As(err, &failure), code, err)
	body, ok := failure.Model().(petstore.Error)
	check(ok && body.Status == status && body.Code == code && body.Message != "", code, string(failure.Body()))
}

func check(ok bool, what string, found any) {
	if !ok {
		log.Panicf("%s: %+v", what, found)
	}
}
