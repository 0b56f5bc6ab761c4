/** Compares svc's engine with transformers.js on the same files, for every dtype of every model. */
import t from 'tap'
import type { EngineEnv, EngineSession } from '../../kernel/api/engine.js'
import engine from '../../plugins/chat/embed/index.js'
import { FAMILIES, type Family } from './families.js'
import { DTYPES, type Dtype } from './graph.js'
import { cosine, idsOf, judge, pulled, vectorsOf } from './kit.js'
import { writtenModel, modelsFolder } from './make.js'

const COSINE = 0.9999
const VECTORS = ['the cat and the dog', 'rain', 'a long walk by the river in the morning was good for us']

const env: EngineEnv = {
  progress: () => {},
  log: (level, message, fields) => { if (level !== 'info') t.comment(message, fields) },
  work: async (_label, _units, call) => await call()
}

const root = await modelsFolder()

for (const family of FAMILIES) {
  t.test(family.name, async (t) => {
    const folder = await writtenModel(root, family)
    for (const dtype of DTYPES) {
      t.test(dtype, async (t) => {
        const session = await engine.load(await pulled(folder, dtype), env)
        t.teardown(async () => { await session.close?.() })
        await vectors(t, session, folder, dtype, family)
      })
    }
  })
}

type Test = Pick<typeof t, 'ok' | 'same'>

async function vectors (
  t: Test, session: EngineSession, folder: string, dtype: Dtype, { pooling }: Family
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
