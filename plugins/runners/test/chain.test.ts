import t from 'tap'
import { explain, LINKS, noInstance, type ChainFacts, type ChainLinkName } from '../routing/explain.js'
import type { RunnerStatus } from '../service.js'

const whole: ChainFacts = {
  modelId: 'acme/x',
  capability: 'tts',
  known: ['svc/voice-en'],
  card: { engine: 'onnx-tts', tasks: ['tts'] },
  backend: { backend: 'cpu', declared: false },
  elsewhere: false,
  placed: true,
  runner: { RunnerReady: {} }
}

function check (
  name: string,
  over: Partial<ChainFacts>,
  link: ChainLinkName | null,
  problem?: RegExp,
  remedy?: RegExp
): void {
  t.test(name, async (t) => {
    const broken = explain({ ...whole, ...over }).broken
    t.equal(broken?.link ?? null, link)
    if (problem !== undefined) t.match(broken?.message, problem)
    if (remedy !== undefined) t.match(broken?.remedy, remedy)
  })
}

check('a whole chain', {}, null)
check('a running runner serves too', { runner: { RunnerRunning: {} } }, null)
check('a question about the model alone', { capability: null }, null)
check('no card', { card: null }, 'card', /no model is called acme\/x/, /Use one of: svc\/voice-en/)
check('no card and no model at all', { card: null, known: [] }, 'card', /acme\/x/, /svc pull acme\/x/)
check('no card while the store is away', { card: null, silentStore: 'attic' }, 'card',
  /called acme\/x here, and the store on attic/, /^Start attic again: (?!.*svc pull)/)
check(
  'a broken card',
  { card: null, cardProblem: 'its card cannot be read: nLayers' },
  'card',
  /nLayers/,
  /Reinstall/
)
check('a model of a plugin that is off', { card: null, off: { plugin: 'tts', enable: 'calls' } }, 'card',
  /plugin tts, which is off/, /^Enable it: `svc plugin enable calls`\.$/)
check('an engine of a plugin that is off',
  { backend: null, off: { plugin: 'tts', enable: 'tts' } }, 'backend',
  /engine onnx-tts comes with the plugin tts, which is off/, /svc plugin enable tts/)
check('no engine', { backend: null }, 'backend', /onnx-tts/, /svc plugin ls/)
check('no backend', { backend: { backend: null, problem: 'P', remedy: 'R' } }, 'backend', /^P$/, /^R$/)
check('no engine, but another node has it', { backend: null, elsewhere: true }, null)
check('another node is still loading it', {
  backend: null, elsewhere: true, runner: { RunnerLoading: { layersLoaded: 1, totalLayers: 3 } }
}, 'runner', /is loading/)
check('not placed', { placed: false, runner: null }, 'placement', /not placed/, /svc place acme\/x/)
check('no runner yet', { runner: null }, 'runner', /not started/, /svc ps/)
const nowhere = { live: [], lost: [], receiving: [] }
check('no files', { copies: nowhere }, 'copy', /no node has its files/, /svc pull acme\/x/)
check('no files while the store is away', { copies: nowhere, silentStore: 'attic' }, 'copy', /store on attic/,
  /^Start attic again/)
check('files on their way', { copies: { ...nowhere, receiving: ['n2'] } }, 'copy', /being transferred/,
  /svc downloads/)
check('lost files', { copies: { ...nowhere, lost: ['n2'] } }, 'copy', /its files are only on n2/, /svc nodes/)
check('files somewhere', { copies: { ...nowhere, live: ['n3'], lost: ['n2'] } }, null)
t.test('what is said of files that nobody looked for', async (t) => {
  const said = (more: Partial<ChainFacts>): string | undefined =>
    explain({ ...whole, ...more }).links.find(({ link }) => link === 'copy')?.message
  t.equal(said({}), 'a runner has them loaded')
  t.equal(said({ runner: null }), 'not known')
})
check('the runner waits for files', {
  runner: { RunnerIdle: {} }, copies: { live: ['n1'], lost: [], receiving: ['n2'] }
}, 'runner', /being copied to n2/, /svc downloads/)
check('it waits for a node', {
  placed: false, runner: null,
  absence: {
    code: 'waiting_for_node', problem: 'it waits for a node: too small', remedy: 'Free memory.', waits: true
  }
}, 'placement', /^it waits for a node: too small$/, /^Free memory\.$/)
check('it is being stopped', { draining: true }, 'placement', /accepts no new requests/, /svc place acme\/x/)
check('of one that is stopped another waits', {
  draining: true, absence: { code: 'waiting_for_node', problem: 'it waits', remedy: 'R', waits: true }
}, 'placement', /^it waits$/, /^R$/)
check('what is placed is not absent', {
  absence: { code: 'waiting_for_node', problem: 'it waits', remedy: 'R', waits: true }
}, null)
check('it was given up', {
  runner: { RunnerFailed: { errorMessage: 'y' } }, failure: { instanceId: 'i', message: 'no library' }
}, 'runner', /given up: no library/, /`svc stop i` and `svc place acme\/x`/)
const damaged = { instanceId: 'i', message: 'no GGUF', code: 'load_failed' }
for (const runner of [{ RunnerFailed: { errorMessage: 'y' } }, { RunnerIdle: {} }]) {
  const untemplated = explain({ ...whole, runner, failure: { ...damaged, code: 'chat_template_unreadable' } })
  t.match(noInstance('acme/x', untemplated.broken!, 0), { status: 503, retryable: false })
  check('its files could not be loaded', { runner, failure: damaged }, 'runner', /given up: no GGUF/,
    /`svc stop i`, `svc rm acme\/x`, `svc pull acme\/x` \(of a folder `svc pull \.\/FOLDER --as acme\/x`\)/)
  t.match(noInstance('acme/x', explain({ ...whole, runner, failure: damaged }).broken!, 0),
    { status: 503, retryable: false, retryAfterSeconds: undefined }, 'waiting does not help')
}
check('the words of a failure choose no remedy', {
  runner: { RunnerIdle: {} }, failure: { ...damaged, message: 'no GGUF in /chat template/x' }
}, 'runner', /given up/, /`svc rm acme\/x`/)
check('its template could not be read', {
  runner: { RunnerIdle: {} }, failure: { ...damaged, code: 'chat_template_unreadable' }
}, 'runner', /given up/, /then `svc stop i` and `svc place acme\/x --chat-template FILE`\.$/)
check('it is started again later', {
  runner: { RunnerFailed: { errorMessage: 'y', nextTryAt: '2026-01-01T00:01:00.000Z' } },
  failure: { instanceId: 'i', message: 'no library' }
}, 'runner', /given up: no library/, /^It restarts at 2026-01-01T00:01:00.000Z\. .*svc stop i/)
check('a task it does not do', { capability: 'chat' }, 'request',
  /^it does not support chat, only tts$/, /acme\/x for tts/)
check('the first broken link wins', { card: null, backend: null, placed: false, runner: null }, 'card')
check('placement comes before the request', { placed: false, runner: null, capability: 'chat' }, 'placement')

const statuses: [RunnerStatus, RegExp][] = [
  [{ RunnerIdle: {} }, /is starting/],
  [{ RunnerConnecting: {} }, /is starting/],
  [{ RunnerConnected: {} }, /is starting/],
  [{ RunnerLoading: { layersLoaded: 1, totalLayers: 3 } }, /is loading \(1 of 3\)/],
  [{ RunnerLoaded: {} }, /is starting/],
  [{ RunnerWarmingUp: {} }, /is warming up/],
  [{ RunnerShuttingDown: {} }, /is shutting down/],
  [{ RunnerShutdown: {} }, /is shutting down/],
  [{ RunnerFailed: { errorMessage: 'out of memory' } }, /failed: out of memory/]
]
for (const [runner, problem] of statuses) {
  check(`a runner that is ${Object.keys(runner)[0] ?? ''}`, { runner }, 'runner', problem)
}

t.test('a failed runner names the way back', async (t) => {
  t.match(
    explain({ ...whole, runner: { RunnerFailed: { errorMessage: 'x' } } }).broken?.remedy,
    /svc stop acme\/x`, then `svc place acme\/x/
  )
})

t.test('the sentence of the client', async (t) => {
  const { broken } = explain({ ...whole, placed: false, runner: null })
  t.equal(noInstance('acme/x', broken!, 0).message,
    'No instance found for model acme/x: it is not placed on any node.')
  t.same(LINKS, ['card', 'copy', 'backend', 'placement', 'runner', 'request'])
})

const failedWith = (code: string): Partial<ChainFacts> =>
  ({ runner: { RunnerFailed: { errorMessage: 'x' } }, failure: { instanceId: 'i', message: 'x', code } })
const waitsFor = (reason: string): Partial<ChainFacts> =>
  ({ runner: { RunnerIdle: { waitsFor: { reason, message: 'Why.', since: '' } } } })
const codes: [Partial<ChainFacts>, string | null][] = [
  [{}, null], [{ card: null }, 'model_unknown'], [{ card: null, cardProblem: 'P' }, 'card_unreadable'],
  [{ copies: nowhere }, 'files_missing'], [{ copies: { ...nowhere, receiving: ['n2'] } }, 'files_coming'],
  [{ copies: { ...nowhere, lost: ['n2'] } }, 'node_lost'], [{ backend: null }, 'plugin_off'],
  [{ backend: { backend: null, problem: 'P', remedy: 'R' } }, 'backend_missing'],
  [{ placed: false }, 'not_placed'], [{ draining: true }, 'draining'],
  [{ placed: false, learning: true }, 'session_new'], [{ runner: null }, 'loading'],
  [{ runner: null, lost: ['n2'] }, 'node_lost'],
  [{ runner: { RunnerFailed: { errorMessage: '' } } }, 'runner_failed'],
  [failedWith('insufficient_memory'), 'does_not_fit'], [failedWith('download_failed'), 'files_missing'],
  [failedWith('else'), 'runner_failed'], [waitsFor('store_unreachable'), 'store_unreachable'],
  [waitsFor('no_safe_fit'), 'disk_full'], [waitsFor('else'), 'runner_waits'],
  [{ capability: 'chat' }, 'task_unsupported']
]
t.test('why it is broken, for programs', async (t) => {
  for (const [over, code] of codes) {
    const { links } = explain({ ...whole, ...over })
    t.equal(links.find(({ ok }) => ok === false)?.code ?? null, code, JSON.stringify(over))
  }
  t.match(explain({ ...whole, ...waitsFor('x') }).broken, { message: 'its runner waits: Why' })
})

const stopped = { code: 'model_stopped', problem: 'it was stopped', remedy: 'R', waits: false }
const waits = { code: 'waiting_for_node', problem: 'it waits', remedy: 'R', waits: true }
const gone = { placed: false, runner: null }
const comes: [string, Partial<ChainFacts>, boolean][] = [
  ['nobody placed it', gone, false],
  ['an operator stopped it', { ...gone, absence: stopped }, false],
  ['it waits for a node', { ...gone, absence: waits }, true],
  ['it is being stopped', { draining: true }, false],
  ['of one that is being stopped another waits', { draining: true, absence: waits }, true],
  ['its runner never reports', { runner: null }, true],
  ['its runner loads', { runner: { RunnerLoaded: {} } }, true],
  ['its node is gone, and this one has no backend for it', { backend: null, runner: null }, true],
  ['its node is gone, with the card', { card: null, runner: null }, true],
  ['a task it does not do', { capability: 'chat' }, false],
  ['what is placed is not known yet', { ...gone, learning: true }, true],
  ['a task it does not do, in a new session', { capability: 'chat', learning: true }, false],
  ['nobody has the model', { ...gone, card: null }, false]
]
for (const [name, over, expected] of comes) {
  t.test(`whether it is worth another try: ${name}`, async (t) => {
    t.equal(explain({ ...whole, ...over }).broken?.comes, expected)
  })
}

t.test('every link, and nothing behind the first broken one', async (t) => {
  const copies = { live: ['n1'], lost: [], receiving: [] }
  const { links: held } = explain({ ...whole, nodes: ['n1', 'n2'], copies })
  t.strictSame(held.map(({ link, ok, message }) => [link, ok, message]), [
    ['card', true, 'tts, runs on engine onnx-tts'], ['copy', true, 'on n1'],
    ['backend', true, 'cpu is available'], ['placement', true, 'on n1, n2'],
    ['runner', true, 'every runner is ready'],
    ['request', true, 'it can answer']
  ])
  t.ok(held.every(({ remedy }) => remedy === null))
  const { links: broken } = explain({ ...whole, placed: false, runner: null })
  t.strictSame(broken.map(({ ok }) => ok), [true, true, true, false, null, null])
  t.match(broken[3], { remedy: /svc place/ })
  t.match(broken[4], { message: 'not checked', remedy: null })
})

const NOW = Date.parse('2026-01-01T00:00:00.000Z')
const given = (nextTryAt?: string): RunnerStatus =>
  ({ RunnerFailed: { errorMessage: 'y', nextTryAt } }) as never
const asks = (nextTryAt: string): RunnerStatus =>
  ({ RunnerIdle: { waitsFor: { reason: 'x', message: 'x', since: nextTryAt, nextTryAt } } }) as never
const retries: [string, RunnerStatus, number, number | undefined][] = [
  ['the time of the next try', given('2026-01-01T00:03:59.500Z'), 240, 240],
  ['at most the longest pause', given('2026-01-02T00:00:00.000Z'), 900, 900],
  ['a time that is over', given('2025-12-31T00:00:00.000Z'), 1, undefined],
  ['no time', given(), 1, undefined],
  ['files are asked for again', asks('2026-01-01T00:00:30.000Z'), 30, 30]
]
for (const [name, runner, seconds, detail] of retries) {
  t.test(`Retry-After: ${name}`, async (t) => {
    const broken = explain({ ...whole, runner, failure: { instanceId: 'I', message: 'y' } }).broken
    const { retryAfterSeconds, details, status } = noInstance('acme/x', broken!, NOW)
    t.strictSame([status, retryAfterSeconds, details['retryAfterSeconds']], [503, seconds, detail])
  })
}
