"""The Lua script that counts limits in Redis. Redis runs it as a whole, so what it counts is exact over all gateways."""

import hashlib

# Every key is one limit; its hash tag (docs/limits.md) keeps those of a tenant in one slot of a cluster.
# Requests and tokens: a hash of slot -> units, with `sum`, and `first`, the oldest slot that may have some; it counts as
# `inference.contract.metering.rate_limit.Window` does. In flight: a sorted set of leases by when they expire, so that the places of a
# gateway that was killed come free. Budgets, whose kind is `usd:` and the period's name: a hash of period -> units; when a request is
# settled, what it cost stands where its limit stood.
SCRIPT = b"""
local SLOT, SLOTS = 500, 120
local mode, lease, lease_ms, tokens, at = ARGV[1], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local now = tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local slot = math.floor(now / SLOT)

local function range(from, to)
  local out = {}
  for number = from, to do out[#out + 1] = number end
  return out
end

local function used(key)
  local have = redis.call('HMGET', key, 'sum', 'first')
  local sum, first = tonumber(have[1] or 0), tonumber(have[2] or slot)
  if first < slot - SLOTS then
    local old = range(math.max(first, slot - 2 * SLOTS - 2), slot - SLOTS - 1)
    for _, units in ipairs(redis.call('HMGET', key, unpack(old))) do
      if units then sum = sum - units end
    end
    redis.call('HDEL', key, unpack(old))
    first = slot - SLOTS
    redis.call('HSET', key, 'sum', sum, 'first', first)
  end
  return sum, first
end

local function wait(key, sum, first, most)
  local excess = sum - most + 1
  local slots = range(first, slot)
  for index, units in ipairs(redis.call('HMGET', key, unpack(slots))) do
    if units then
      excess = excess - units
      if excess <= 0 then return (slots[index] + SLOTS + 1) * SLOT - now end
    end
  end
  return (SLOTS + 1) * SLOT
end

local function take(key, units, where)
  redis.call('HINCRBY', key, where, units)
  redis.call('HINCRBY', key, 'sum', units)
  redis.call('HSETNX', key, 'first', where)
  redis.call('PEXPIRE', key, (SLOTS + 2) * SLOT)
end

local function hold(key, ids)
  for _, id in ipairs(ids) do redis.call('ZADD', key, now + lease_ms, id) end
  redis.call('PEXPIRE', key, lease_ms)
end

if mode == 'renew' then
  local ids = {}
  for index = 7, #ARGV do ids[#ids + 1] = ARGV[index] end
  hold(KEYS[1], ids)
  return #ids
end

if mode == 'settle' then
  for index, key in ipairs(KEYS) do
    local kind, cost = ARGV[5 + 2 * index], ARGV[6 + 2 * index]
    if string.sub(kind, 1, 4) == 'usd:' then
      if cost ~= '0' then
        local period = string.sub(kind, 5)
        for _, field in ipairs(redis.call('HKEYS', key)) do
          if field < period then redis.call('HDEL', key, field) end
        end
        redis.call('HINCRBY', key, period, cost)
        redis.call('EXPIRE', key, 32 * 86400)
      end
    elseif kind == 'in_flight' then
      if lease ~= '' then redis.call('ZREM', key, lease) end
    elseif kind == 'tokens' and tokens > 0 then
      used(key)
      take(key, tokens, slot)
    elseif kind == 'tokens' and tokens < 0 and at >= slot - SLOTS then
      local taken = tonumber(redis.call('HGET', key, at) or 0)
      if taken > 0 then take(key, math.max(tokens, -taken), at) end
    end
  end
  return 0
end

local states = {}
for index, key in ipairs(KEYS) do
  local kind, most = ARGV[5 + 2 * index], tonumber(ARGV[6 + 2 * index])
  if kind == 'in_flight' then
    redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
    states[index] = redis.call('ZCARD', key)
    if states[index] >= most then return {index, 0, slot, unpack(states)} end
  elseif string.sub(kind, 1, 4) == 'usd:' then
    states[index] = tonumber(redis.call('HGET', key, string.sub(kind, 5)) or 0)
    if states[index] >= most then return {index, 0, slot, unpack(states)} end
  else
    local sum, first = used(key)
    states[index] = sum
    if sum >= most then return {index, wait(key, sum, first, most), slot, unpack(states)} end
  end
end
for index, key in ipairs(KEYS) do
  local kind = ARGV[5 + 2 * index]
  local units = kind == 'tokens' and tokens or 1
  if string.sub(kind, 1, 4) ~= 'usd:' then
    if kind == 'in_flight' then hold(key, {lease}) else take(key, units, slot) end
    states[index] = states[index] + units
  end
end
return {0, 0, slot, unpack(states)}
"""

SHA = hashlib.sha1(SCRIPT).hexdigest()  # noqa: S324  (Redis names scripts so)
