-- Go on with a paused job. A cap that is given replaces the job's, 'none' lifts it, '' leaves it as it is.
-- KEYS meta   ARGV most_usd most_tokens   -> the status before | false where there is no job
local status = redis.call('HGET', KEYS[1], 'status')
if status ~= 'paused' then return status end
redis.call('HDEL', KEYS[1], 'error')
for i, name in ipairs({'most_usd', 'most_tokens'}) do
  if ARGV[i] == 'none' then
    redis.call('HDEL', KEYS[1], name)
  elseif ARGV[i] ~= '' then
    redis.call('HSET', KEYS[1], name, ARGV[i])
  end
end
redis.call('HINCRBY', KEYS[1], 'resumes', 1)
redis.call('HSET', KEYS[1], 'status', 'running')
return status
