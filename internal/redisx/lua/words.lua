-- States are stored as words: whole numbers of 8 bytes, little-endian. Redis has the library struct for them; miniredis,
-- with which applications test, has not. The only formats are '<' and an 'I8' for each word.
local word = 8

local function wordsWithoutStruct()
  return {
    pack = function(_, ...)
      local text = ''
      for _, n in ipairs({...}) do
        for _ = 1, word do
          text = text .. string.char(n % 256)
          n = floor(n / 256)
        end
      end
      return text
    end,
    unpack = function(form, s, first)
      local numbers = {}
      for i = 1, (#form - 1) / 2 do
        local n = 0
        for at = (first or 1) + word * i - 1, (first or 1) + word * (i - 1), -1 do
          n = 256 * n + string.byte(s, at)
        end
        numbers[i] = n
      end
      return unpack(numbers)
    end,
  }
end

local library = rawget(_G, 'struct') or wordsWithoutStruct()
local packWords, unpackWords = library.pack, library.unpack
