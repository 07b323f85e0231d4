-- What the scripts share; it stands before each of them.
local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- The mark of a request in flight: whose it is, what it has reserved, and the account of its month; nil for any other field.
local function parsed(mark)
  return string.match(mark or '', '^%?(%S+) (%S+) (%S+) (%S+)$')
end

-- Put a chunk back at the head of the list. If it is alone there, its job has no message: one is owed.
local function put_back(meta, todo, chunk)
  if redis.call('LPUSH', todo, chunk) == 1 then redis.call('HSET', meta, 'owed', 1) end
end

-- Put what a request spent in the place of what its mark reserved, on the accounts of its job, of its project's month
-- and, if its rows are live traffic, of its stream's day.
local function book(meta, counters, mark, spent_usd, spent_tokens, uncertain, unknown_usd)
  local _, usd, tokens, month = parsed(mark)
  for _, account in ipairs({meta, month, redis.call('HGET', meta, 'account') or nil}) do
    redis.call('HINCRBY', account, 'in_flight', -1)
    redis.call('HINCRBYFLOAT', account, 'open_usd', '-' .. usd)
    redis.call('HINCRBYFLOAT', account, 'spent_usd', spent_usd)
    redis.call('HINCRBYFLOAT', account, 'unknown_usd', unknown_usd)
  end
  redis.call('HINCRBYFLOAT', meta, 'open_tokens', '-' .. tokens)
  redis.call('HINCRBYFLOAT', meta, 'spent_tokens', spent_tokens)
  if tonumber(uncertain) > 0 then
    redis.call('HINCRBY', meta, 'uncertain_calls', uncertain)
    redis.call('HINCRBY', counters, 'uncertain_calls', uncertain)
  end
end

-- Book the open requests of a chunk but for those of `owner`, who has it now: the outcome of the others is unknown, so their
-- estimates count as spent.
local function book_open(meta, counters, chunk, owner)
  local calls = string.gsub(meta, 'meta$', '') .. 'calls:' .. chunk
  local fields = redis.call('HGETALL', calls)
  for i = 1, #fields, 2 do
    local token, usd, tokens = parsed(fields[i + 1])
    if token and token ~= owner then
      redis.call('HDEL', calls, fields[i])
      book(meta, counters, fields[i + 1], usd, tokens, 1, usd)
    end
  end
end
