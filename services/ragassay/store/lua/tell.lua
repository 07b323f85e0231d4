-- Keep a notice once, with a delivery of it for each webhook that wants its kind: all of that, or nothing. One that is no
-- alert (`opt_in`) is kept only where a webhook wants it. `only`: for this webhook alone, and not kept (a test).
-- KEYS notice notices webhooks   ARGV prefix id json kind opt_in only email notice_kept_s most_notices delivery_kept_s
--   -> {webhook, its delivery, ...} | false where it was kept before, or nobody wants it
local prefix, id, kind, only = ARGV[1], ARGV[2], ARGV[4], ARGV[6]
if redis.call('EXISTS', KEYS[1]) == 1 then return false end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local order = t[1] * 1000 + t[2] / 1000 -- those of one millisecond stay in their order
local receivers = {}
for _, webhook in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
  local enabled, kinds = unpack(redis.call('HMGET', prefix .. 'webhook:' .. webhook, 'enabled', 'kinds'))
  local wants = webhook == only
    or (only == '' and enabled == '1' and string.find(kinds, ',' .. kind .. ',', 1, true) ~= nil)
  if wants then table.insert(receivers, webhook) end
end
if ARGV[7] == '1' and ARGV[5] ~= '1' and only == '' then
  redis.call('HSET', prefix .. 'webhook:email', 'enabled', 1)
  table.insert(receivers, 'email')
end
if #receivers == 0 and (ARGV[5] == '1' or only ~= '') then return false end
if only == '' then
  redis.call('HINCRBY', 'ra:counters', 'notices\31' .. kind, 1)
  redis.call('SET', KEYS[1], ARGV[3], 'EX', ARGV[8])
  redis.call('ZADD', KEYS[2], order, id)
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - ARGV[8] * 1000)
  redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -ARGV[9] - 1)
  redis.call('EXPIRE', KEYS[2], ARGV[8])
end
local deliveries = {}
for _, webhook in ipairs(receivers) do
  local delivery = 'msg_' .. redis.sha1hex(id .. ' ' .. webhook)
  local listed, queue = prefix .. 'deliveries:' .. webhook, prefix .. 'queue:' .. webhook
  redis.call('HSET', prefix .. 'delivery:' .. delivery, 'webhook', webhook, 'notice', ARGV[3], 'status', 'waiting',
    'tries', 0, 'created_ms', now, 'next_ms', now)
  redis.call('EXPIRE', prefix .. 'delivery:' .. delivery, ARGV[10])
  redis.call('ZADD', listed, order, delivery)
  redis.call('ZREMRANGEBYSCORE', listed, '-inf', now - ARGV[10] * 1000)
  redis.call('EXPIRE', listed, ARGV[10])
  redis.call('ZADD', queue, order, delivery)
  redis.call('EXPIRE', queue, ARGV[10])
  table.insert(deliveries, webhook)
  table.insert(deliveries, delivery)
end
return deliveries
