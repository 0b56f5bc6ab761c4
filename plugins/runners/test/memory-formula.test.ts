/** The memory that a model's keys and values need. */
import t from 'tap'
import type { CacheType, MemoryFacts } from '../../../kernel/api/engine.js'
import { cacheOf, needOf } from '../cards/memory-forecast.js'

const MIB = 2 ** 20
const shape = { nLayers: 32, kvHeads: 8, headSize: 128, contextLength: 8192, totalBytes: 0 }

t.test('the contexts of a model', async (t) => {
  t.match(cacheOf(shape, 4096), { contextBytes: 512 * MIB, contexts: 1 }, 'of sizes alone')
  t.equal(cacheOf({ ...shape, kvHeads: 0 }).bytes, 0, 'an encoder keeps nothing')
  const memory = { weightBytes: 0, tokenBytes: 4096, stateBytes: 1000 }
  t.match(cacheOf({ ...shape, memory }, 2048), { contextBytes: 8 * MIB + 1000, contexts: 16 })
  t.equal(cacheOf({ ...shape, memory }, 2048, 3).bytes, 3 * (8 * MIB + 1000), 'as many as are asked for')
})

const server = { fixedBytes: 64 * MIB, keepsPrompts: true }
const library = { fixedBytes: 96 * MIB, batchTokens: 128, vocabularyBytes: 640 }
const speech = { fixedBytes: 176 * MIB }
const vocabulary = 49_152

/** Header facts of real models, and the measured peak memory of their processes in MiB. */
const smollm2 = { weightBytes: 96_576_768, tokenBytes: 23_040, batchTokenBytes: 32_256, vocabulary }
const gemma3 = {
  weightBytes: 246_587_904, tokenBytes: 3072, windowTokenBytes: 15_360, windowTokens: 512,
  batchTokenBytes: 39_936, vocabulary: 262_144
}
const moe = { weightBytes: 294_575_104, tokenBytes: 8192, batchTokenBytes: 55_296, vocabulary }
const mamba = {
  weightBytes: 226_889_728, tokenBytes: 0, stateBytes: 3_735_552, batchTokenBytes: 73_728, vocabulary
}
const llama = { weightBytes: 197_300_224, tokenBytes: 12_288, batchTokenBytes: 58_368, vocabulary }
interface Settings { context?: number, cacheType?: CacheType }
const measured: ReadonlyArray<[string, object, MemoryFacts, number, Settings?]> = [
  ['SmolLM2 135M', server, smollm2, 603],
  ['SmolLM2 135M, library', library, smollm2, 571],
  ['Gemma 3 270M', server, gemma3, 1070],
  ['Gemma 3 270M, library', library, gemma3, 1003],
  ['llama', server, llama, 839],
  ['llama, 16384 tokens in q8_0', server, llama, 868, { cacheType: 'q8_0', context: 16_384 }],
  ['qwen3moe', server, moe, 958],
  ['qwen3moe, library', library, moe, 909],
  ['mamba', server, mamba, 510],
  ['mamba, library', library, mamba, 394],
  ['lfm2', server, {
    weightBytes: 332_266_496, tokenBytes: 12_288, stateBytes: 81_920, batchTokenBytes: 73_728, vocabulary
  }, 985],
  ['granitehybrid', server, {
    weightBytes: 126_055_936, tokenBytes: 2048, stateBytes: 6_463_488, batchTokenBytes: 58_944, vocabulary
  }, 788],
  ['deepseek2, latent attention', server, {
    weightBytes: 176_680_960, tokenBytes: 9216, batchTokenBytes: 61_440, vocabulary
  }, 870],
  ['gemma2', server, {
    weightBytes: 200_739_840, tokenBytes: 16_384, windowTokenBytes: 16_384, windowTokens: 1024,
    batchTokenBytes: 55_296, vocabulary
  }, 872],
  ['SmolLM2 with a drafter', server, {
    ...smollm2, weightBytes: 126_677_760, tokenBytes: 26_112, batchTokenBytes: 53_760,
    vocabulary: 2 * vocabulary
  }, 739],
  ['gemma3 with vision weights', server, {
    weightBytes: 158_691_840, tokenBytes: 0, windowTokenBytes: 4096, windowTokens: 512,
    batchTokenBytes: 39_936, vocabulary, workBytes: 150_994_944
  }, 559],
  ['Piper joe', speech, { weightBytes: 63_201_294, tokenBytes: 0, workBytes: 227_524_659 }, 494],
  ['Kokoro int8', speech, {
    weightBytes: 92_361_271, tokenBytes: 0, workBytes: 267_847_686
  }, 542]
]

t.test('what real processes take, within 10 % or 64 MiB', async (t) => {
  const card = { nLayers: 1, kvHeads: 0, headSize: 0, contextLength: 32_768, totalBytes: 0 }
  for (const [what, traits, memory, peak, { context, ...more } = {}] of measured) {
    const { neededBytes } = needOf({ ...card, memory, ...more }, traits, { context })
    const off = Math.abs(neededBytes / MIB - peak)
    t.ok(off <= Math.max(64, peak / 10), `${what}: ${Math.round(neededBytes / MIB)} for ${peak} MiB`)
  }
  const miniLm = needOf({ ...card, totalBytes: 23_700_000 }, { fixedBytes: 256 * MIB })
  t.ok(Math.abs(miniLm.neededBytes / MIB - 318) <= 64, 'MiniLM, without facts')
})

t.test('a card without facts, and a part of a model', async (t) => {
  const old = { nLayers: 1, kvHeads: 0, headSize: 0, contextLength: 512, totalBytes: 1000 * MIB }
  t.match(needOf(old, {}), { neededBytes: 1556 * MIB, bufferBytes: 300 * MIB, factor: 1.556 })
  const facts = { ...old, memory: { weightBytes: 100 * MIB, tokenBytes: MIB / 512 } }
  const part = { of: 1, parts: 4 }
  const half = needOf(facts, { fixedBytes: 7, gpuBytes: 9 }, { part, gpu: true })
  t.match(half, { shareBytes: 25 * MIB, cacheBytes: 4 * MIB, fixedBytes: 9 }, 'what a GPU takes')
  t.match(needOf(facts, { fixedBytes: 7 }, { part }), { shareBytes: 25 * MIB, fixedBytes: 7 })
})
