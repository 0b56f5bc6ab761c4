/**
 * Requests of clients and answers of svc have the form of plugins/chat/test/recorded, which the short tests
 * replay. `npm run test:real -- recorded`, or `-- record` to record it anew.
 */
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { MODEL } from '../../plugins/chat/test/api-kit.js'
import { startForRecorded } from '../../plugins/chat/test/recorded-kit.js'
import { run } from '../node/kit.js'
import { pythonEnvironment } from './python.mjs'
import { sameAsRecorded } from './recorded-kit.js'
import { recorder } from './recorder.js'

const pathOf = (name: string): string => fileURLToPath(new URL(name, import.meta.url))
const { folder, missing: skip = false } =
  pythonEnvironment('recorded', pathOf('recorded-requirements.txt'))

for (const client of ['openai', 'anthropic', 'ollama', 'litellm']) {
  t.test(client, { skip, timeout: 600_000 }, async (t) => {
    const { rig } = await startForRecorded(t)
    const recorded = await recorder(t, { url: await rig.listen() })
    const words = [pathOf('recorded.py'), client, recorded.url, MODEL]
    // LiteLLM must not download its list of models.
    const env = { LITELLM_LOCAL_MODEL_COST_MAP: 'True' }
    const child = run(join(folder ?? '', 'python'), words, { env })
    t.equal(await child.ended, 0, child.stderr())
    sameAsRecorded(t, client, child.stdout().trim().split('\n').at(-1)!, recorded.exchanges)
  })
}
