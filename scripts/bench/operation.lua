-- One operation of the service, for wrk. The key comes by the environment, so that it is not in argv.
local key, operation, pets = os.getenv("BENCH_KEY"), os.getenv("BENCH_OPERATION"), tonumber(os.getenv("BENCH_PETS"))
local cursor = os.getenv("BENCH_CURSOR")
local headers = { Authorization = "Bearer " .. key }
local threads, bad = {}, 0

function setup(thread)
  thread:set("seed", #threads + 1)
  table.insert(threads, thread)
end

function init()
  bad_here = 0
  math.randomseed(seed)
end

function request()
  if operation == "get" then
    return wrk.format("GET", "/v1/pets/" .. math.random(1, pets), headers)
  elseif operation == "list" then
    return wrk.format("GET", "/v1/pets?limit=20", headers)
  elseif operation == "filtered" then
    return wrk.format("GET", "/v1/pets?limit=20&status=available", headers)
  elseif operation == "deep" then
    return wrk.format("GET", "/v1/pets?limit=20&cursor=" .. cursor, headers)
  end
  headers["Content-Type"] = "application/json"
  return wrk.format("POST", "/v1/pets", headers, '{"name":"Rex","categoryId":7,"status":"available"}')
end

function response(status)
  if status ~= 200 and status ~= 201 then bad_here = bad_here + 1 end
end

function done(summary, latency)
  for _, thread in ipairs(threads) do bad = bad + thread:get("bad_here") end
  bad = bad + summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
  io.write(string.format("RESULT %d %d %d %d %d\n", summary.requests, bad, latency:percentile(50),
    latency:percentile(99), summary.duration))
end
