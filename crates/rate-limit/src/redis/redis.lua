-- The rate limit policy (../policy.rs, ../windows.rs), each step atomic because Redis runs one
-- script at a time. Integers only, all below 2^53, which Lua's numbers hold exactly.
--
-- KEYS: two for each step: the string with the owner's windows, and the one with the key's abuse state. If a key has
-- no abuse state (accounts without bans, requests for usage, addresses), the owner's string twice.
-- ARGV: the time in Unix milliseconds, or '' for Redis's own; then four for each step: the action, the limits per
-- minute and per day, and the time before which refusals are settled (0 if never):
--   'take' decides on one request and counts it;
--   'pass' does the same for an address, which is forgotten sooner if it sent few requests;
--   'read' returns the record.
-- Returns the time, and for each step a string (step.rs). A step that fails returns 'E' and Redis's error, and so do
-- all steps of a key that cannot be written. Steps of other keys are not affected.

local MINUTE, DAY = 60000, 86400000
local GRACE, STRIKES_SPAN, FEWEST_STRIKES = 1000, 600000, 100
local SKEW = MINUTE

-- Minute: from, used. Day: from, used. The last time at which the abuse state of any key of the account
-- matters, so that it is not read for keys that were never refused.
local WINDOWS, WINDOWS_SIZE = '>I6I5I6I5I6', 28
-- Refused period: from, until. Strikes: from, until, count; once there were too many, the count is 0.
local ABUSE, ABUSE_SIZE = '>I6I6I6I6I5', 29

local call, pack, unpack, max, min = redis.call, struct.pack, struct.unpack, math.max, math.min

local now = tonumber(ARGV[1])
if not now then
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The state of each key after the steps so far. Many steps of a call often belong to one account, so each key is read
-- once, and written once after all steps.
local entries, changed, step = {}, {}, 0

local function stored(key, size)
  local entry = entries[key]
  if not entry then
    local value = call('GET', key)
    if value and #value ~= size then
      error({ err = 'WRONGTYPE not a record of the rate limiter' })
    end
    entry = { is_kept = value, keeps_ttl = value, value = value, steps = {} }
    entries[key] = entry
  end
  entry.steps[#entry.steps + 1] = step
  return entry.value
end

local function running(from, length)
  return from <= now + length and now < from + length
end

local function holds(from, till)
  return from <= now + SKEW and now < till
end

-- The TTL is only written if it changed, which halves the cost of storing.
local function keep(key, after, till, till_before)
  local entry = entries[key]
  if after == entry.value then
    return
  end
  if not entry.till then
    changed[#changed + 1] = key
  end
  entry.keeps_ttl = entry.keeps_ttl and till == till_before
  entry.value, entry.till = till > now and after, till
end

-- Stores what changed until it is over; Redis counts that from its own time, which differs from `now` only in
-- tests.
local function write(key)
  local entry = entries[key]
  if not entry.value then
    if entry.is_kept then
      call('DEL', key)
    end
  elseif entry.keeps_ttl then
    call('SET', key, entry.value, 'KEEPTTL')
  else
    call('SET', key, entry.value, 'PX', entry.till - now)
  end
end

local function read_windows(owner)
  local kept = stored(owner, WINDOWS_SIZE)
  if not kept then
    return 0, 0, 0, 0, 0
  end
  return unpack(WINDOWS, kept)
end

-- A window is kept for its length beyond its end, because it may be running again if the clock is set back.
local function windows_till(minute, day, abuse_till)
  return max(minute + 2 * MINUTE, day + 2 * DAY, abuse_till)
end

-- Returns the parts that still matter.
local function current_abuse(key, settled)
  local c = { refused = 0, refused_till = 0, striking = 0, striking_till = 0, strikes = 0 }
  local kept = stored(key, ABUSE_SIZE)
  if kept then
    local refused, refused_till, striking, striking_till, strikes = unpack(ABUSE, kept)
    if holds(refused, refused_till) and refused >= settled then
      c.refused, c.refused_till = refused, refused_till
    end
    if holds(striking, striking_till) and striking >= settled then
      c.striking, c.striking_till, c.strikes = striking, striking_till, strikes
    end
  end
  return c
end

-- Returns the last time at which it matters.
local function keep_abuse(key, c)
  local till = max(c.refused_till, c.striking_till)
  if till > 0 then
    till = till + SKEW
  end
  keep(key, pack(ABUSE, c.refused, c.refused_till, c.striking, c.striking_till, c.strikes), till)
  return till
end

local function is_struck_out(c)
  return c.strikes == 0 and c.striking > 0
end

-- Returns true if this was a strike.
local function refuse(c, retry_after, per_minute)
  if not holds(c.refused, c.refused_till) then
    c.refused, c.refused_till = now, now + retry_after
    return false
  end
  if now < c.refused + GRACE then
    return false
  end
  if is_struck_out(c) then
    return true
  end
  if c.strikes == 0 then
    c.striking, c.striking_till = now, now + STRIKES_SPAN
  end
  c.strikes = c.strikes + 1
  if c.strikes > max(FEWEST_STRIKES, 2 * per_minute) then
    c.striking, c.striking_till, c.strikes = now, now + STRIKES_SPAN, 0
  end
  return true
end

-- `slot` is 0, or for an address the time in which the day's limit grants one request.
local function take(owner, key, per_minute, per_day, settled, slot)
  local minute, in_minute, day, in_day, abuse_till = read_windows(owner)
  local till_before = slot == 0 and windows_till(minute, day, abuse_till)
  if not running(minute, MINUTE) then
    minute, in_minute = 0, 0
  end
  if not running(day, DAY) then
    day, in_day = 0, 0
  end
  local c = now < abuse_till and key ~= owner and current_abuse(key, settled)
  local outcome, struck_out = 'A', ''

  if in_minute < per_minute and in_day < per_day then
    if in_minute == 0 then
      minute = now
    end
    if in_day == 0 then
      day = now - now % DAY
    end
    in_minute, in_day = in_minute + 1, in_day + 1
    if c then
      if now >= c.refused + GRACE then
        c.refused, c.refused_till = 0, 0
      end
      keep_abuse(key, c)
    end
  else
    local minute_end = (in_minute == 0 and now or minute) + MINUTE
    local day_end = (in_day == 0 and now - now % DAY or day) + DAY
    local minute_is_over, day_is_over = in_minute >= per_minute, in_day >= per_day
    outcome = (not day_is_over or minute_is_over and minute_end > day_end) and 'M' or 'D'
    if key ~= owner then
      local wait = max(minute_is_over and minute_end or 0, day_is_over and day_end or 0) - now + 999
      c = c or current_abuse(key, settled)
      local is_strike = refuse(c, max(1000, wait - wait % 1000), per_minute)
      abuse_till = max(abuse_till, keep_abuse(key, c))
      if is_strike then
        outcome = string.lower(outcome)
        struck_out = is_struck_out(c) and pack('>I6', c.striking) or ''
      end
    end
  end

  local after = pack(WINDOWS, minute, in_minute, day, in_day, abuse_till)
  local till = windows_till(minute, day, abuse_till)
  if slot > 0 then
    till = min(till, now + 2 * MINUTE + in_day * slot)
  end
  keep(owner, after, till, till_before)
  return outcome .. after .. struck_out
end

local steps = {
  take = function(owner, key, per_minute, per_day, settled)
    return take(owner, key, per_minute, per_day, settled, 0)
  end,

  -- Any client can use many addresses, and could fill the memory with them. An address that sent few requests is
  -- forgotten after two minutes plus the time in which the day's limit grants as many, so that forgetting it does
  -- not grant more.
  pass = function(owner, key, per_minute, per_day, settled)
    return take(owner, key, per_minute, per_day, settled, math.ceil(DAY / per_day))
  end,

  read = function(owner, key)
    local kept = stored(owner, WINDOWS_SIZE)
    local abuse = key ~= owner and stored(key, ABUSE_SIZE)
    return 'R' .. (kept or pack(WINDOWS, 0, 0, 0, 0, 0)) .. (abuse or '')
  end,
}

local function failed(failure)
  return 'E' .. tostring(type(failure) == 'table' and failure.err or failure)
end

local answers = { now }
for i = 1, #KEYS / 2 do
  step = i
  local at = 4 * i - 2
  local ok, answer = pcall(
    steps[ARGV[at]], KEYS[2 * i - 1], KEYS[2 * i],
    tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  )
  answers[i + 1] = ok and answer or failed(answer)
end
for _, key in ipairs(changed) do
  local ok, failure = pcall(write, key)
  if not ok then
    for _, i in ipairs(entries[key].steps) do
      answers[i + 1] = failed(failure)
    end
  end
end
return answers
