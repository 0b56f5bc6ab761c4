/** The program `ollama` against Ollama's API of a node. */
import t from 'tap'
import { tinyModel } from '../../../plugins/llama-cpp/test/gguf-kit.js'
import { startHub } from '../../../plugins/staging/test/hub-kit.js'
import { run, sparing, until } from '../../node/kit.js'
import { recorder, reportClient, type Expected } from '../recorder.js'
import { EMBEDDER, MODEL, quiet, skip, startModels } from './kit.js'
import { ollama, VERSION } from './ollama.mjs'

const { program, missing } = skip === false ? ollama() : { missing: skip }

const HUBBED = 'acme/tiny'
const LATEST = `${HUBBED}:latest`

const ABSENT = { status: 404, sent: /acme\/none/, got: /not found/, why: 'a model that does not exist' }
const EXPECTED: Expected[] = [
  { path: '/ollama/api/show', ...ABSENT }, { path: '/ollama/api/delete', ...ABSENT },
  { path: '/ollama/api/me', status: 404, sent: /^/, got: /no route/, why: 'ollama push is for ollama.com' }
]

interface Ran { status: number | string, out: string, err: string }

t.test(`ollama ${VERSION}`, { skip: missing ?? false, timeout: 600_000 }, async (t) => {
  const hub = await startHub({ models: { [HUBBED]: { files: { 'tiny-F32.gguf': tinyModel() } } } })
  t.teardown(async () => { await hub.close() })
  const node = await startModels(t, {
    // The program sends no token.
    access: { local: ['read', 'invoke', 'cluster:write'] },
    model_store: { hub: { url: hub.url, redirect_hosts: [hub.cdnHost] } }
  }, sparing(0))
  const recorded = await recorder(t, node)
  const env = { ...quiet(t), OLLAMA_HOST: `${recorded.url}/ollama` }
  const cli = async (...words: string[]): Promise<Ran> => {
    const child = run(program ?? '', words, { env })
    const status = await child.ended
    return { status, out: child.stdout(), err: child.stderr() }
  }
  const works = async (what: RegExp | RegExp[], ...words: string[]): Promise<string> => {
    const { status, out, err } = await cli(...words)
    t.equal(status, 0, `ollama ${words.join(' ')}: ${err}`)
    for (const one of [what].flat()) t.match(out, one, `ollama ${words.join(' ')}`)
    return out
  }
  const fails = async (what: RegExp, ...words: string[]): Promise<void> => {
    const { status, err } = await cli(...words)
    t.equal(status, 1, words.join(' '))
    t.match(err, what)
  }
  const isListed = async (name: string, ...words: string[]): Promise<boolean> =>
    (await cli(...words)).out.includes(name)

  await works([new RegExp(`^${MODEL}:latest`, 'm'), new RegExp(`^${EMBEDDER}:latest`, 'm')], 'list')
  await works([/parameters +135M/, /context length +8192/, /completion/], 'show', MODEL)
  await works(/svc stop/, 'run', 'svc/guide', 'How do I stop a model?')
  await works(/^\[-?0\.\d+(,-?[\d.e-]+){383}\]/, 'run', EMBEDDER, 'rain')

  await works(/^/, 'pull', `hf.co/${HUBBED}`)
  t.ok(await isListed(LATEST, 'list'), 'pulled')
  t.notOk(await isListed(LATEST, 'ps'))
  await works(/^/, 'run', '--keepalive', '10m', HUBBED, 'hi')
  t.ok(await isListed(LATEST, 'ps'), 'loaded')
  await works(/^/, 'stop', HUBBED)
  await until('the end of the model', async () => !await isListed(LATEST, 'ps'))
  await works(/deleted/, 'rm', HUBBED)
  t.notOk(await isListed(LATEST, 'list'), 'removed')

  await fails(/'acme\/none' not found/, 'rm', 'acme/none')
  await fails(/'acme\/none' not found/, 'show', 'acme/none')
  await fails(/no route/, 'push', MODEL)

  const { unexpected } = reportClient({
    client: 'ollama (the program)', version: VERSION,
    set: '`OLLAMA_HOST=URL/ollama`; to change models, `access.local` with `cluster:write`',
    works: ['list', 'run', 'show', 'ps', 'pull', 'rm', 'stop', 'embeddings']
  }, recorded.exchanges, EXPECTED)
  t.same(unexpected, [], 'no other answer of svc is an error')
})
