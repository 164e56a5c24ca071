<?php
// A small session with the generated PHP client, with warnings as errors.

declare(strict_types=1);

use Petstore\Api\PetsApi;
use Petstore\ApiException;
use Petstore\Configuration;
use Petstore\Model\Error;
use Petstore\Model\NewPet;
use Petstore\Model\Pet;
use Petstore\Model\PetStatus;

require_once 'GuzzleHttp/autoload.php';
spl_autoload_register(function (string $class): void {
    if (str_starts_with($class, 'Petstore\\')) {
        require __DIR__ . '/client/lib/' . str_replace('\\', '/', substr($class, strlen('Petstore\\'))) . '.php';
    }
});
set_error_handler(fn (int $severity, string $message) => throw new ErrorException($message, 0, $severity), E_ALL & ~E_DEPRECATED);

const PER_MINUTE = 20; // of the account that testing/sdk/run makes
const PAGE = 2; // pets on a page

function check(bool $ok, string $what, mixed $found = null): void
{
    if (!$ok) {
        throw new LogicException("$what: " . var_export($found, true));
    }
}

function api(string $key): PetsApi
{
    $configuration = (new Configuration())->setHost(getenv('PETSTORE_BASE_URL'))->setAccessToken($key);
    return new PetsApi(null, $configuration);
}

function checkRateHeaders(array $headers): void
{
    check(field($headers, 'X-RateLimit-Limit') === (string) PER_MINUTE, 'X-RateLimit-Limit', $headers);
    check(preg_match('/^\d+$/', field($headers, 'X-RateLimit-Remaining')) === 1, 'X-RateLimit-Remaining', $headers);
    check((int) field($headers, 'X-RateLimit-Reset') > time() - 1, 'X-RateLimit-Reset', $headers);
}

function field(array $headers, string $name): string
{
    return array_change_key_case($headers)[strtolower($name)][0] ?? '';
}

// Returns the header fields of a refusal.
function refusal(callable $call, int $status, string $code): array
{
    try {
        $call();
    } catch (ApiException $refused) {
        $error = $refused->getResponseObject();
        check($error instanceof Error && $error->getStatus() === $status && $error->getCode() === $code, $code, $error);
        check($refused->getCode() === $status && $error->getMessage() !== '', $code, $error);
        return $refused->getResponseHeaders();
    }
    throw new LogicException("$code was expected");
}

$api = api(getenv('PETSTORE_API_KEY'));

function create(string $name, int $category, ?string $status = null): Pet
{
    global $api;
    $pet = (new NewPet())->setName($name)->setCategoryId($category);
    if ($status !== null) {
        $pet->setStatus($status);
    }
    check($pet->valid(), 'the pet', $pet->listInvalidProperties());
    [$created, $code, $headers] = $api->createPetWithHttpInfo($pet);
    check($code === 201 && $created instanceof Pet && $created->valid(), 'createPet', $created);
    checkRateHeaders($headers);
    return $created;
}

// Add three pets and fetch one.
$rex = create('Rex', 7, PetStatus::AVAILABLE);
$mia = create('Éßïa 🐈', PHP_INT_MAX); // bytes that look like control characters, if read one by one
$tom = create('Tom', 3, PetStatus::SOLD);
check([$mia->getName(), $mia->getCategoryId(), $mia->getStatus()] === ['Éßïa 🐈', PHP_INT_MAX, null], 'createPet', $mia);
check($api->getPet($rex->getId()) == $rex, 'getPet');

// Walk through the pages: the header X-Next-Cursor leads to the next one, and is absent on the last.
[$pets, $cursor] = [[], null];
do {
    [$page, , $headers] = $api->listPetsWithHttpInfo(PAGE, null, $cursor);
    array_push($pets, ...$page);
    $cursor = field($headers, 'X-Next-Cursor');
} while ($cursor !== '');
check($pets == [$rex, $mia, $tom], 'pages', $pets);
checkRateHeaders($headers);
check($api->listPets(status: PetStatus::SOLD) == [$tom], 'listPets of a status');

// The client itself refuses a name without a letter, and the service one that the pattern does not cover.
foreach ([' ', "a\u{7}"] as $name) {
    try {
        (new NewPet())->setName($name);
        check(false, 'the pattern of names');
    } catch (InvalidArgumentException) {
    }
}

// Errors have a type, whatever the status.
refusal(fn () => create("\u{a0}", 1), 400, 'VALIDATION_FAILED');
refusal(fn () => $api->listPets(cursor: 'no-cursor'), 400, 'INVALID_CURSOR');
$stranger = refusal(fn () => api('not-a-key')->listPets(), 401, 'INVALID_API_KEY');
check(str_starts_with(field($stranger, 'WWW-Authenticate'), 'Bearer '), 'WWW-Authenticate', $stranger);
refusal(fn () => $api->getPet(999_999), 404, 'PET_NOT_FOUND');

// Over the limit, the response says how long to wait.
$refused = refusal(function () use ($api): void {
    for ($calls = 0; $calls <= PER_MINUTE; $calls++) {
        $api->listPets();
    }
}, 429, 'RATE_LIMITED');
checkRateHeaders($refused);
check(field($refused, 'X-RateLimit-Remaining') === '0', 'X-RateLimit-Remaining', $refused);
$wait = (int) field($refused, 'Retry-After');
check($wait >= 1 && $wait <= 60, 'Retry-After', $refused);

echo "the PHP client: a whole session, typed\n";
