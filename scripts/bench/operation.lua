-- Sends one operation of the service, for wrk. The environment names it. The file of keys has one key per line, all of the
-- same length.
local operation, pets, cursor = os.getenv("BENCH_OPERATION"), tonumber(os.getenv("BENCH_PETS")), os.getenv("BENCH_CURSOR")
local threads = {}

function setup(thread)
  thread:set("seed", #threads + 1)
  table.insert(threads, thread)
end

function init()
  bad_here, refused_here = 0, 0
  math.randomseed(seed)
  local file = assert(io.open(os.getenv("BENCH_KEYS")))
  keys = file:read("*a")
  file:close()
  key_len = keys:find("\n") - 1
  count = #keys / (key_len + 1)
end

function request()
  local at = math.random(0, count - 1) * (key_len + 1)
  local headers = { Authorization = "Bearer " .. keys:sub(at + 1, at + key_len) }
  if operation == "get" then
    return wrk.format("GET", "/v1/pets/" .. math.random(1, pets), headers)
  elseif operation == "list" then
    return wrk.format("GET", "/v1/pets?limit=20&status=available", headers)
  elseif operation == "lists" then -- 33 different ones
    local status = ({ "available", "pending", "sold" })[math.random(3)]
    return wrk.format("GET", "/v1/pets?limit=" .. math.random(15, 25) .. "&status=" .. status, headers)
  elseif operation == "deep" then
    return wrk.format("GET", "/v1/pets?limit=20&cursor=" .. cursor, headers)
  end
  headers["Content-Type"] = "application/json"
  return wrk.format("POST", "/v1/pets", headers, '{"name":"Rex","categoryId":7,"status":"available"}')
end

function response(status, _, body)
  if status == 503 and body:find("OVERLOADED", 1, true) then
    refused_here = refused_here + 1
  elseif status ~= 200 and status ~= 201 then
    bad_here = bad_here + 1
  end
end

-- Prints the numbers of answers, of those refused as OVERLOADED and of those that failed, and the duration. Then all
-- latencies as "microseconds count", so that those of several runs can be combined.
function done(summary, latency)
  local bad = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
  local refused = 0
  for _, thread in ipairs(threads) do
    bad, refused = bad + thread:get("bad_here"), refused + thread:get("refused_here")
  end
  io.write(string.format("RESULT %d %d %d %d", summary.requests, refused, bad, summary.duration))
  for place = 1, #latency do
    local micros, times = latency(place)
    io.write(string.format(" %d %d", micros, times))
  end
  io.write("\n")
end
