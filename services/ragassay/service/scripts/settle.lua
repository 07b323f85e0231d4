-- End a request: keep its reply, if it has one, and book what it spent; `unknown_usd` of that is an estimate. Sent again after a
-- lost answer, or late, when the request is booked as one of a dead worker's, it changes no account.
-- What was counted since the last call of this process goes to the counters with it. Once they are `most` many, a model that
-- is new, the first label, is counted as "other".
-- A reply is progress: what counts as deaths of its chunk are those since the last one.
-- KEYS calls meta counters dead   ARGV call request token chunk reply spent_usd spent_tokens uncertain unknown_usd counted most
local calls, meta, counters = KEYS[1], KEYS[2], KEYS[3]
local call, request, token, chunk, reply = unpack(ARGV, 1, 5)
local left_ms = redis.call('PTTL', meta)
if reply ~= '' and left_ms ~= -2 then
  redis.call('HSETNX', calls, call, reply)
  if left_ms > 0 and redis.call('PTTL', calls) == -1 then redis.call('PEXPIRE', calls, left_ms) end -- after the job was closed
end
local mark = redis.call('HGET', calls, request)
if parsed(mark) ~= token then return 0 end
redis.call('HDEL', calls, request)
if reply ~= '' then redis.call('HDEL', KEYS[4], chunk) end
book(meta, counters, mark, unpack(ARGV, 6, 9))
for field, amount in pairs(cjson.decode(ARGV[10])) do
  if redis.call('HLEN', counters) >= tonumber(ARGV[11]) and redis.call('HEXISTS', counters, field) == 0 then
    field = string.gsub(field, '\31[^\31]*', '\31other', 1)
  end
  redis.call('HINCRBYFLOAT', counters, field, amount)
end
return 1
