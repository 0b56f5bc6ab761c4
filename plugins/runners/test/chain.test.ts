import t from 'tap'
import { brokenLink, LINKS, noInstanceMessage } from '../chain.js'
import type { ChainFacts, Link } from '../chain.js'
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
  link: Link | null,
  problem?: RegExp,
  remedy?: RegExp
): void {
  t.test(name, async (t) => {
    const broken = brokenLink({ ...whole, ...over })
    t.equal(broken?.link ?? null, link)
    if (problem !== undefined) t.match(broken?.problem, problem)
    if (remedy !== undefined) t.match(broken?.remedy, remedy)
  })
}

check('a whole chain', {}, null)
check('a running runner serves too', { runner: { RunnerRunning: {} } }, null)
check('a question about the model alone', { capability: null }, null)
check('no card', { card: null }, 'card', /no model is called acme\/x/, /Use one of: svc\/voice-en/)
check('no card and no model at all', { card: null, known: [] }, 'card', /acme\/x/, /svc plugin enable/)
check(
  'a broken card',
  { card: null, cardProblem: 'its card cannot be read: nLayers' },
  'card',
  /nLayers/,
  /Install/
)
check('no engine', { backend: null }, 'backend', /onnx-tts/, /svc plugin enable/)
check('no backend', { backend: { backend: null, problem: 'P', remedy: 'R' } }, 'backend', /^P$/, /^R$/)
check('no engine, but another node has it', { backend: null, elsewhere: true }, null)
check('another node is still loading it', {
  backend: null, elsewhere: true, runner: { RunnerLoading: { layersLoaded: 1, totalLayers: 3 } }
}, 'runner', /is loading/)
check('not placed', { placed: false, runner: null }, 'placement', /not placed/, /svc place acme\/x/)
check('no runner yet', { runner: null }, 'runner', /not started/, /svc status/)
check('a task it does not do', { capability: 'chat' }, 'request', /does tts, not chat/, /acme\/x for tts/)
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
    brokenLink({ ...whole, runner: { RunnerFailed: { errorMessage: 'x' } } })?.remedy,
    /POST \/admin\/restart/
  )
})

t.test('the sentence of the client', async (t) => {
  const message = noInstanceMessage('acme/x', {
    link: 'placement',
    problem: 'it is not placed on any node',
    remedy: ''
  })
  t.equal(message, 'No instance found for model acme/x: it is not placed on any node.')
  t.same(LINKS, ['card', 'backend', 'placement', 'runner', 'request'])
})
