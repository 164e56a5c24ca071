// A small session with the generated Java client. That it compiles is half of the test.

import java.net.http.HttpHeaders;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.ApiResponse;
import org.openapitools.client.api.PetsApi;
import org.openapitools.client.model.Error;
import org.openapitools.client.model.NewPet;
import org.openapitools.client.model.Pet;
import org.openapitools.client.model.PetStatus;

public final class Session {
  private static final int PER_MINUTE = 20; // of the account that testing/sdk/run makes
  private static final int PAGE = 2; // pets on a page
  private static final String BASE_URL = System.getenv("PETSTORE_BASE_URL");
  private static final PetsApi API = api(System.getenv("PETSTORE_API_KEY"));

  private interface Call {
    void run() throws ApiException;
  }

  public static void main(String[] arguments) throws ApiException {
    // Add three pets and fetch one.
    Pet rex = create("Rex", 7, PetStatus.AVAILABLE);
    Pet mia = create("Mía 🐈", Long.MAX_VALUE, null);
    Pet tom = create("Tom", 3, PetStatus.SOLD);
    check(mia.getName().equals("Mía 🐈") && mia.getCategoryId() == Long.MAX_VALUE && mia.getStatus() == null, mia);
    check(API.getPet(rex.getId()).equals(rex), rex);

    // Walk through the pages: the header X-Next-Cursor leads to the next one, and is absent on the last.
    List<Pet> pets = new ArrayList<>();
    String cursor = null;
    do {
      ApiResponse<List<Pet>> page = API.listPetsWithHttpInfo(PAGE, null, cursor);
      pets.addAll(page.getData());
      cursor = headers(page.getHeaders()).firstValue("X-Next-Cursor").orElse(null);
    } while (cursor != null);
    check(pets.equals(List.of(rex, mia, tom)), pets);
    check(API.listPets(null, PetStatus.SOLD, null).equals(List.of(tom)), "listPets of a status");

    // Errors have a body, whatever the status.
    refusal(() -> create(" ", 1, null), 400, "VALIDATION_FAILED");
    refusal(() -> API.listPets(101, null, null), 400, "INVALID_PARAMETER");
    HttpHeaders stranger = refusal(() -> api("not-a-key").listPets(null, null, null), 401, "INVALID_API_KEY");
    check(stranger.firstValue("WWW-Authenticate").orElse("").startsWith("Bearer "), stranger);
    refusal(() -> API.getPet(999_999L), 404, "PET_NOT_FOUND");

    // Over the limit, the response says how long to wait.
    HttpHeaders refused = refusal(() -> {
      for (int calls = 0; calls <= PER_MINUTE; calls++) API.listPets(null, null, null);
    }, 429, "RATE_LIMITED");
    checkRateHeaders(refused);
    check(refused.firstValue("X-RateLimit-Remaining").orElse("").equals("0"), refused);
    long wait = refused.firstValueAsLong("Retry-After").orElse(0);
    check(wait >= 1 && wait <= 60, refused);

    System.out.println("the Java client: a whole session, typed");
  }

  private static PetsApi api(String key) {
    ApiClient client = new ApiClient();
    client.updateBaseUri(BASE_URL);
    client.setRequestInterceptor(request -> request.header("Authorization", "Bearer " + key));
    return new PetsApi(client);
  }

  private static Pet create(String name, long category, PetStatus status) throws ApiException {
    NewPet pet = new NewPet().name(name).categoryId(category).status(status);
    ApiResponse<Pet> response = API.createPetWithHttpInfo(pet, null);
    check(response.getStatusCode() == 201, response.getStatusCode());
    checkRateHeaders(headers(response.getHeaders()));
    return response.getData();
  }

  private static HttpHeaders refusal(Call call, int status, String code) {
    try {
      call.run();
    } catch (ApiException refused) {
      try {
        Error error = ApiClient.createDefaultObjectMapper().readValue(refused.getResponseBody(), Error.class);
        check(refused.getCode() == status && error.getStatus() == status && error.getCode().equals(code), error);
        check(!error.getMessage().isEmpty(), error);
      } catch (java.io.IOException malformed) {
        throw new AssertionError(refused.getResponseBody(), malformed);
      }
      return refused.getResponseHeaders();
    }
    throw new AssertionError(code + " was expected");
  }

  private static void checkRateHeaders(HttpHeaders headers) {
    check(headers.firstValueAsLong("X-RateLimit-Limit").orElse(0) == PER_MINUTE, headers);
    check(headers.firstValueAsLong("X-RateLimit-Remaining").isPresent(), headers);
    check(headers.firstValueAsLong("X-RateLimit-Reset").orElse(0) >= Instant.now().getEpochSecond() - 1, headers);
  }

  private static HttpHeaders headers(Map<String, List<String>> fields) {
    return HttpHeaders.of(fields, (name, value) -> true);
  }

  private static void check(boolean ok, Object found) {
    if (!ok) throw new AssertionError(found);
  }
}
