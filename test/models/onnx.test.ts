/** Every form of every model: svc's engine against transformers.js on the same files. */
import t from 'tap'
import { cacheOf, type EngineEnv, type EngineSession } from '../../kernel/api/engine.js'
import { inner as engine } from '../../plugins/chat/engine/index.js'
import { loadModel } from '../../plugins/chat/engine/load.js'
import { FAMILIES, type Family } from './families.js'
import type { Dtype } from './graph.js'
import {
  agreement, cosine, idsOf, judge, pulled, vectorsOf, written, type Agreement, type Answer
} from './kit.js'
import { made, modelsFolder } from './make.js'

/** Largest difference of a log probability, in nats; in half precision one step of a logit from 8 to 16. */
const EXACT = 1e-3
const HALF_STEP = 2 ** -7 + EXACT
const exactOf = (dtype: Dtype): number => dtype.endsWith('f16') || dtype === 'fp16' ? HALF_STEP : EXACT
/**
 * The same where a call is not of the same tokens as the judge's. Half-precision and 4-bit graphs round what
 * they compute with, 8-bit graphs quantise all of a call by one scale.
 */
const APART: Record<Dtype, number> = { fp32: EXACT, fp16: 0.02, q4f16: 0.05, q4: 0.05, q8: 0.5 }
const COSINE = 0.9999
const TOKENS = 12
/** A prompt of at most so many tokens is always one piece. */
const ONE_PIECE = 16

const SHORT = ['Rain fell on the old stone road.', 'A red cat', 'Count: one, two, three']
const SENTENCE = 'The river runs past the mill and under the bridge, where the children of the village ' +
  'used to swim in summer before the new road was built, and the old people still tell of the flood that ' +
  'took the bridge.'
const TEXTS = [SENTENCE, 'Grüße, naïve café — 北京 🙂 x²', ' two  spaces\n\n\tand tabs', '<|im_start|>user']
const CHATS = [
  [{ role: 'user', content: 'Hello there' }],
  [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'One?' },
    { role: 'assistant', content: 'Two.' }, { role: 'user', content: 'Why?' }]
]
const VECTORS = ['the cat and the dog', 'rain', 'a long walk by the river in the morning was good for us']

const env: EngineEnv = {
  progress: () => {},
  log: (level, message, fields) => { if (level !== 'info') t.comment(message, fields) },
  work: async (_label, _units, call) => await call()
}

const root = await modelsFolder()

for (const family of FAMILIES) {
  t.test(family.name, async (t) => {
    const folder = await made(root, family)
    for (const dtype of family.dtypes) {
      t.test(dtype, async (t) => {
        const spec = await pulled(folder, dtype)
        // As the file says: svc would compute q4 in 8 bits also where it leaves that open.
        const session = await engine.load({ ...spec, options: { exact_products: true } }, env)
        t.teardown(async () => { await session.close?.() })
        if (family.kind === 'encoder') await vectors(t, session, folder, dtype, family)
        else await answers(t, session, folder, dtype)
      })
    }
    if (family.kind === 'decoder') {
      for (const dtype of ['fp32', 'q4f16'] as const) await memory(t, folder, dtype)
    }
  })
}

type Test = Pick<typeof t, 'ok' | 'pass' | 'same' | 'match'>

async function answers (t: Test, session: EngineSession, folder: string, dtype: Dtype): Promise<void> {
  t.match(session.info(), {
    batches: /^padded/, prefill: 'in pieces', lastTokenOnly: true, newEntriesOnly: true
  }, 'the fast way')
  const prompts: number[][] = []
  for (const prompt of [...SHORT, SENTENCE, ...dtype === 'q8' ? [] : [`${SENTENCE} `.repeat(5)]]) {
    prompts.push(await idsOf(session, { prompt }))
  }
  const alone: Answer[] = []
  for (const prompt of prompts) alone.push(await written(session, prompt, TOKENS))
  // As in a conversation: prompt and answer again, and what is said next.
  const next = [...prompts[3]!, ...alone[3]!.ids, ...prompts[1]!]
  const again = await written(session, next, TOKENS)
  const together = await Promise.all(prompts.map(async (prompt) => await written(session, prompt, TOKENS)))
  const judged = await judge(folder, dtype,
    { chats: CHATS, texts: TEXTS, prompts: [...prompts, next], tokens: TOKENS })
  for (const [i, messages] of CHATS.entries()) {
    t.same(await idsOf(session, { messages }), judged.chats[i], 'the ids of a conversation')
  }
  for (const [i, prompt] of TEXTS.entries()) {
    t.same(await idsOf(session, { prompt }), judged.texts[i], `the ids of ${JSON.stringify(prompt)}`)
  }
  prompts.forEach((prompt, i) => {
    const size = `${prompt.length} tokens`
    const one = agreement(judged.answers[i]!, alone[i]!)
    fits(t, one, prompt.length > ONE_PIECE ? APART[dtype] : exactOf(dtype), `${size} alone`)
    const other = agreement(judged.answers[i]!, together[i]!)
    fits(t, other, APART[dtype], `${size} in a batch`)
  })
  t.ok(again.cached >= prompts[3]!.length, `${again.cached} of ${next.length} tokens were known`)
  fits(t, agreement(judged.answers.at(-1)!, again), APART[dtype], 'after a known beginning')
}

/** Log probabilities are near, and the answers part at most where the judge likes both tokens as well. */
function fits (t: Test, { same, worst, parted }: Agreement, tolerance: number, what: string): void {
  t.ok(worst <= tolerance, `${what}: log probabilities differ by ${worst.toExponential(1)}`)
  if (parted === null) t.pass(`${what}: ${same} tokens are the same`)
  else t.ok(parted <= tolerance, `${what}: parts after ${same} tokens, by ${parted}`)
}

async function vectors (
  t: Test, session: EngineSession, folder: string, dtype: Dtype, { pooling = 'mean' }: Family
): Promise<void> {
  const own = await vectorsOf(session, VECTORS)
  const judged = await judge(folder, dtype, { texts: VECTORS, encode: { texts: VECTORS, pooling } })
  for (const [i, text] of VECTORS.entries()) {
    t.same(await idsOf(session, { prompt: text }), judged.texts[i], `the ids of ${text}`)
    const near = cosine(judged.vectors[i]!, own[i]!)
    t.ok(near >= COSINE, `cosine ${near} of ${text}`)
    const [single] = await vectorsOf(session, [text])
    t.ok(cosine(single!, own[i]!) >= COSINE, 'whoever else is in the request')
  }
}

/** What placement counts for a context is what the engine then holds. */
async function memory (t: Test, folder: string, dtype: Dtype): Promise<void> {
  const tokens = 900
  const spec = await pulled(folder, dtype)
  const model = await loadModel(spec, env)
  if (!('decoder' in model)) throw new Error('no decoder')
  const { decoder, prompts } = model
  const ids = Array.from({ length: tokens }, (_, i) => 3 + i % 97)
  const prompt = await decoder.forward(decoder.empty(), [ids.slice(1)], false)
  const state = decoder.pack([{ batch: prompt.batch, row: 0, length: tokens - 1 }])
  const { batch } = await decoder.forward(state, [ids.slice(0, 1)], false)
  const held = batch.parts.reduce((sum, { byteLength }) => sum + byteLength, 0)
  const { contextBytes } = cacheOf(spec.card, tokens)
  const off = contextBytes / held - 1
  t.ok(Math.abs(off) <= 0.15, `${dtype}: ${contextBytes} bytes are counted, ${held} held: ${off.toFixed(3)}`)
  await prompts.close()
  await decoder.close()
}
