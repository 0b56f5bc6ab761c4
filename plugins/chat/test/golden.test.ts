import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import t from 'tap'
import type { EngineSession } from '../../../kernel/api/engine.js'
import { inner as engine } from '../engine/index.js'
import { quietEnv, specOf, tinyTokenizer, writeModel } from './engine-kit.js'
import { VOCABULARY } from './engine-onnx.js'
import { GOLDENS, SHARED, type Golden, type GoldenAnswer, type GoldenModel } from './golden-kit.js'

const BATCH = 8
const ROUNDING = 1e-4
/** Tokens of one answer until the next one begins. */
const BETWEEN = 3

/** What the engine wrote; a token that ends the text is not reported. */
interface Written { ids: number[], logprobs: Array<number | null> }

async function write (
  session: EngineSession, { prompt, ids }: GoldenAnswer, onPiece: (tokens: number) => void = () => {}
): Promise<Written> {
  const payload = { prompt, max_tokens: ids.length, params: { temperature: 0, logprobs: true } }
  const written: Written = { ids: [], logprobs: [] }
  for await (const { payload: piece } of session.run({ kind: 'completion', payload },
    new AbortController().signal)) {
    const { tokens = [] } = piece as { tokens?: Array<{ id: number, logprob: number | null }> }
    for (const { id, logprob } of tokens) {
      written.ids.push(id)
      written.logprobs.push(logprob)
    }
    onPiece(written.ids.length)
  }
  return written
}

/** All answers, at most eight at once; each begins when the one before it is under way. */
async function writeTogether (session: EngineSession, answers: readonly GoldenAnswer[]): Promise<Written[]> {
  const made: Written[] = []
  let [next, open] = [0, 0]
  await new Promise<void>((resolve, reject) => {
    const begin = (): void => {
      const index = next
      const answer = answers[index]
      if (answer === undefined || open === BATCH) return
      next++
      open++
      let followed = false
      const onPiece = (tokens: number): void => {
        if (followed || tokens < BETWEEN) return
        followed = true
        begin()
      }
      write(session, answer, onPiece).then((written) => {
        made[index] = written
        open--
        if (next < answers.length) begin()
        else if (open === 0) resolve()
      }, reject)
    }
    begin()
  })
  return made
}

const goldenOf = async ({ name }: GoldenModel): Promise<Golden> =>
  JSON.parse(await readFile(new URL(`fixtures/goldens/${name}.json`, import.meta.url), 'utf8')) as Golden

/** A folder with the model; of the project's own model and those of ../shared, their own. */
async function folderOf ({ file, shape, name }: GoldenModel, at: string): Promise<string> {
  if (file !== undefined && basename(dirname(file)) !== 'onnx') return dirname(file)
  if (file !== undefined) return dirname(dirname(file))
  const directory = join(at, name)
  // Every id is a token, and none ends an answer, as in the goldens.
  const vocab = Object.fromEntries(Array.from({ length: VOCABULARY }, (_, id) => [`Ġ${id}`, id]))
  const tokenizer = tinyTokenizer()
  await writeModel(directory, shape, {
    'tokenizer.json': { ...tokenizer, added_tokens: [], model: { ...tokenizer['model'] as object, vocab } },
    'tokenizer_config.json': {},
    'config.json': { max_position_embeddings: 128 }
  })
  return directory
}

const hashOf = async (directory: string, file = join(directory, 'model.onnx')): Promise<string> =>
  createHash('sha256').update(await readFile(file)).digest('hex')

function without (file: string | undefined): string | false {
  if (file === undefined || existsSync(file)) return false
  return `needs ${file}, which is absent${file.startsWith(SHARED) ? ` (model files of ${SHARED})` : ''}`
}

for (const model of GOLDENS) {
  t.test(`${model.name}: what transformers.js writes, token for token`, { skip: without(model.file) },
    async (t) => {
      const golden = await goldenOf(model)
      const directory = await folderOf(model, t.testdir())
      t.equal(await hashOf(directory, model.file), golden.sha256,
        'the goldens are of this graph; else run: node test/bench/chat-goldens.mjs')
      t.ok(golden.answers.length >= BATCH)
      const env = quietEnv()
      const session = await engine.load(await specOf(directory, { contextLength: 0 },
        { prefix_cache_bytes: 0 }), env)
      const check = (how: string, written: Written, { ids, logprobs }: GoldenAnswer): void => {
        const missing = ids.length - written.ids.length
        t.ok(missing === 0 || missing === 1, 'all but the token that ends a text')
        t.same(written.ids, ids.slice(0, written.ids.length), `${how}: tokens`)
        const worst = Math.max(...written.logprobs.map((each, i) =>
          Math.abs((each ?? Infinity) - (logprobs[i] as number))))
        t.ok(worst <= ROUNDING, `${how}: log probabilities differ by ${worst}`)
      }
      for (const answer of golden.answers) check('alone', await write(session, answer), answer)
      const together = await writeTogether(session, golden.answers)
      for (const [i, answer] of golden.answers.entries()) check('together', together[i] as Written, answer)
      const rows = env.announced.filter(({ label }) => label === 'decode').map(({ units }) => units)
      t.equal(Math.max(...rows), BATCH)
      t.ok(new Set(rows).size >= BATCH, 'the batch kept changing')
      await session.close?.()
    })
}
