-- Entries of a sliding limit, as texts: an entry is two words, its stamp and its count. Entries but the newest are kept
-- in blocks, each a field of its own, so that a decision changes little of a long state.
-- Uses format, pack, sub, unpackWords, word (word), call (reply).
--
-- The list of the blocks of a state, oldest first, has three words for each: the stamp of its newest entry, its number and
-- the sum of its counts. Its field is named after that of the state and the number, as s60000000:7, and has one word, the
-- expiry of its key, and then entries. Places count from 0.
local entrySize, blockSize = 2 * word, 3 * word
local maxEntries = 64 -- of a block

local function entries(text)
  return #text / entrySize
end

-- entryAt returns the stamp and the count of an entry.
local function entryAt(text, i)
  return unpackWords('<I8I8', text, entrySize * i + 1)
end

-- withCount returns text with another count of an entry, which is removed if that is 0.
local function withCount(text, i, stamp, count)
  local entry = count > 0 and pack('<I8I8', stamp, count) or ''
  return sub(text, 1, entrySize * i) .. entry .. sub(text, entrySize * (i + 1) + 1)
end

-- firstFrom returns the place of the first record in a text, of this size and sorted by their first word, whose first word
-- is at least stamp, or the number of records if none is.
local function firstFrom(text, size, stamp)
  local low, high = 0, #text / size
  while low < high do
    local middle = (low + high - (low + high) % 2) / 2
    if unpackWords('<I8', text, size * middle + 1) < stamp then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

local function blocks(q)
  return #q.list / blockSize
end

-- blockAt returns the newest stamp, the number and the sum of a block in a list.
local function blockAt(list, i)
  return unpackWords('<I8I8I8', list, blockSize * i + 1)
end

-- readBlock returns the entries of a block. Those of a block that has been lost count as one.
local function readBlock(q, i)
  local stamp, number, sum = blockAt(q.list, i)
  local text = q.texts[number]
  if not text then
    text = sub(call('HGET', q.pair.key, q.name .. ':' .. format('%d', number)) or '', word + 1)
    if text == '' or #text % entrySize > 0 then
      text = pack('<I8I8', stamp, sum)
    end
    q.texts[number] = text
  end
  return text
end

-- replaceBlock puts record, which may be empty, in place of that of a block in the list.
local function replaceBlock(q, i, record)
  q.list = sub(q.list, 1, blockSize * i) .. record .. sub(q.list, blockSize * (i + 1) + 1)
end

local function removeBlock(q, i)
  local _, number = blockAt(q.list, i)
  q.texts[number], q.changed[number] = nil, true
  replaceBlock(q, i, '')
end

-- setBlock replaces the entries of a block, which is removed if there are none.
local function setBlock(q, i, text, sum)
  if text == '' then
    return removeBlock(q, i)
  end
  local _, number = blockAt(q.list, i)
  q.texts[number], q.changed[number] = text, true
  replaceBlock(q, i, pack('<I8I8I8', entryAt(text, entries(text) - 1), number, sum))
end

-- takeLastBlock makes the entries of the last block the newest if q has none.
local function takeLastBlock(q)
  if q.newest == '' and q.list ~= '' then
    local last = blocks(q) - 1
    q.newest = readBlock(q, last)
    removeBlock(q, last)
  end
end

-- fillBlock makes the newest entries of q a block.
local function fillBlock(q)
  local number, sum = 1, 0
  if q.list ~= '' then
    local _, last = blockAt(q.list, blocks(q) - 1)
    number = last + 1
  end
  for i = 0, maxEntries - 1 do
    local _, count = entryAt(q.newest, i)
    sum = sum + count
  end
  q.list = q.list .. pack('<I8I8I8', (entryAt(q.newest, maxEntries - 1)), number, sum)
  q.texts[number], q.changed[number], q.newest = q.newest, true, ''
end

-- appendEntry adds a newest entry to q, of which used knows already.
local function appendEntry(q, stamp, count)
  if entries(q.newest) >= maxEntries then
    fillBlock(q)
  end
  q.newest = q.newest .. pack('<I8I8', stamp, count)
end

-- storeBlocks stores the blocks that have changed.
local function storeBlocks(q, expires)
  for number in pairs(q.changed) do
    local field, text = q.name .. ':' .. format('%d', number), q.texts[number]
    if text then
      call('HSET', q.pair.key, field, pack('<I8', expires) .. text)
    else
      call('HDEL', q.pair.key, field)
    end
  end
  q.changed = {}
end
