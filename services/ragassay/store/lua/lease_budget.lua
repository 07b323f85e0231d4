-- Lease more of a project's budget to a job, or, with nothing wanted, only write down what the job has spent and gives back.
-- `upto` is what the job may spend in all. A higher number than the one that is known replaces what was leased; the same
-- request again, or one that others of the job were faster with, leases nothing more. A block is a hundredth of the budget,
-- less where little is left, and never less than what is wanted.
-- KEYS most lease leases months   ARGV job number spent upto wanted month kept_s   -> upto | 'stale' | 'gone' | 'none' where there is no budget
local most = tonumber(redis.call('GET', KEYS[1]) or '')
local number, spent, upto = unpack(redis.call('HMGET', KEYS[2], 'number', 'spent', 'upto'))
number, spent, upto = tonumber(number or -1), tonumber(spent or 0), tonumber(upto or 0)
local wanted = tonumber(ARGV[5])
if tonumber(ARGV[2]) < number then return 'stale' end
local known = tonumber(ARGV[2]) == number and upto > tonumber(ARGV[4])
if not known then upto = tonumber(ARGV[4]) end
local more = math.max(0, tonumber(ARGV[3]) - spent)
if more > 0 then redis.call('HINCRBYFLOAT', KEYS[4], ARGV[6], string.format('%.17g', more)) end
spent = spent + more
upto = math.max(upto, spent)
local answer
if wanted > 0 and not most then answer = 'none'
elseif wanted > 0 and not known then
  local room = most - tonumber(redis.call('HGET', KEYS[4], ARGV[6]) or 0) - (upto - spent)
  local leases = redis.call('HGETALL', KEYS[3])
  for i = 1, #leases, 2 do
    if leases[i] ~= ARGV[1] then room = room - tonumber(leases[i + 1]) end
  end
  if wanted > room + 1e-9 then answer = 'gone'
  else upto = upto + math.max(wanted, math.min(most / 100, room / 8)) end
end
redis.call('HSET', KEYS[2], 'number', ARGV[2], 'spent', string.format('%.17g', spent), 'upto', string.format('%.17g', upto))
redis.call('EXPIRE', KEYS[2], ARGV[7])
if upto - spent > 1e-9 then redis.call('HSET', KEYS[3], ARGV[1], string.format('%.17g', upto - spent))
else redis.call('HDEL', KEYS[3], ARGV[1]) end
return answer or string.format('%.17g', upto)
