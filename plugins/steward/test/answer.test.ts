import t from 'tap'
import { answerOf, moreOf, planOf, type Found } from '../reader/select.js'
import { evidenceWords, restWords } from '../reader/index.js'
import { understand } from '../reader/question.js'
import type { Evidence, Fact, Finding } from '../../../kernel/cli/index.js'
import type { World } from '../reader/entities.js'

const world: World = {
  models: ['acme/voice', 'svc/guide'], tasks: { 'acme/voice': ['tts'] },
  nodes: [{ nodeId: 'a1', name: 'attic' }, { nodeId: 'b2', name: 'node2' }],
  instances: {}, master: 'a1', local: 'a1', nowMs: Date.parse('2026-11-23T20:22:00Z'), zoneMin: 0
}

const fact = (
  level: Fact['level'], code: string, text: string, about: string[] = [], more: Partial<Fact> = {}
): Fact => ({ level, code, text, about, evidence: [], remedy: null, ...more })

const answers = fact('ok', 'model_ready', 'acme/voice answers.', ['acme/voice'])
const stopped = fact('fail', 'model_stopped', 'acme/voice was stopped by hand.', ['acme/voice'],
  { remedy: 'Place it: `svc place acme/voice`.' })
const waits = fact('fail', 'waiting_for_node', 'acme/voice waits for node2.', ['acme/voice', 'node2'])
const lost = fact('fail', 'node_lost', 'node2 is lost for 5 min.', ['node2'],
  { remedy: 'Start it with `svc up`.' })
const full = fact('fail', 'disk_full', 'The disk of attic is full.', ['attic'],
  { remedy: 'Make room: `svc gc`.' })
const master = fact('ok', 'master', 'attic is master since 14:05.', ['attic'])
const live = fact('ok', 'node_live', 'attic is live.', ['attic'])
const machine = fact('info', 'machine', 'attic has 2 GiB of 8 GiB of memory free.', ['attic'])
const old = fact('fail', 'request_failed', 'A request failed 3 h ago with no_instance.', ['acme/voice'])

const event = fact('info', 'node_timed_out', 'At 14:05 node7 was lost.', ['node7'],
  { evidence: [{ kind: 'event', idx: 1, at: '2026-11-23T14:05:00Z', name: 'NodeTimedOut' }] })

/** The findings of each tool; a tool without an entry is absent. */
type Findings = Record<string, Fact[] | string>

function answer (question: string, findings: Findings): ReturnType<typeof answerOf> {
  const asked = understand(question, [], world)
  const found = planOf(asked, world).map((call): Found => {
    const of = findings[call.tool] ?? []
    const finding: Finding = typeof of === 'string'
      ? { facts: [], unknown: [of] }
      : { facts: of, unknown: [] }
    return { call, finding }
  })
  return answerOf(asked, found, world)
}

interface Row {
  name: string
  asked: string
  findings: Findings
  diagnosis: string | RegExp
  sure?: boolean
  codes?: string[]
  remedies?: string[]
}

const why = 'why does acme/voice not answer?'

const health = fact('ok', 'health', 'No problem at 2 live nodes.')

const table: Row[] = [
  {
    name: 'whether a node is up comes before its figures', asked: 'is attic up?',
    findings: { node: [live, machine] }, diagnosis: live.text, sure: true, codes: ['node_live', 'machine']
  },
  {
    name: 'its memory is in its figures', asked: 'how much memory does attic have?',
    findings: { node: [live, machine] }, diagnosis: machine.text, sure: true, codes: ['machine', 'node_live']
  },
  {
    name: 'a healthy cluster is healthy', asked: 'what is wrong?', findings: { doctor: [health] },
    diagnosis: 'Nothing is wrong.', codes: ['health'], remedies: []
  },
  {
    name: 'what could not be looked at is no health', asked: 'is everything ok?',
    findings: { doctor: 'The state could not be read: 401.' },
    diagnosis: /^Nothing that is wrong could be seen, but/,
    sure: false
  },
  {
    name: 'a complaint that no finding explains is not denied', asked: 'why do my requests hang?',
    findings: { doctor: [health] }, sure: false,
    diagnosis: 'No finding explains that. Checked and found well: No problem at 2 live nodes.'
  },
  {
    name: 'a false premise is said to be false', asked: 'why is attic down?',
    findings: { node: [live], doctor: [health] },
    diagnosis: 'Not so now: attic is live.', sure: true
  },
  {
    name: 'a fault is not sure to be the cause if what was asked about could not be seen',
    asked: 'why is my token refused?', sure: false,
    findings: { tokens: 'The tokens could not be read: that needs the authority operator.',
      doctor: [health] },
    diagnosis: /^No finding explains that/
  },
  {
    name: 'what broke long ago is told by the events', asked: 'what broke at 14:05?',
    findings: { events: [event], doctor: [{ ...lost, about: ['node2'] }] },
    diagnosis: /^At 14:05 node7 was lost/
  },
  {
    name: 'the fault of the model comes first', asked: why,
    findings: { why_model: [stopped], doctor: [full] },
    diagnosis: stopped.text, sure: true, codes: ['model_stopped', 'disk_full'],
    remedies: [stopped.remedy!, full.remedy!]
  },
  {
    name: 'the cause explains the symptom', asked: why, findings: { why_model: [waits], doctor: [lost] },
    diagnosis: 'acme/voice waits for node2: node2 is lost for 5 min.', sure: true,
    codes: ['waiting_for_node', 'node_lost']
  },
  {
    name: 'what is elsewhere is named as such', asked: why,
    findings: { why_model: [answers], doctor: [lost] },
    diagnosis: 'Not so now: acme/voice answers; elsewhere: node2 is lost for 5 min.',
    codes: ['model_ready', 'node_lost']
  },
  {
    name: 'what is over is no fault of now', asked: why,
    findings: { why_model: [answers], last_failure: [old] },
    diagnosis: /^Not so now: acme\/voice answers/, codes: ['model_ready'], remedies: []
  },
  {
    name: 'two faults are both named', asked: 'what is wrong?', findings: { doctor: [full, lost] },
    diagnosis: full.text, codes: ['disk_full', 'node_lost'], remedies: [full.remedy!, lost.remedy!]
  },
  {
    name: 'the same fault of two tools is told once', asked: 'why is node2 gone?',
    findings: { doctor: [lost], node: [{ ...lost, text: 'node2 is gone.' }] }, diagnosis: 'node2 is gone.',
    codes: ['node_lost']
  },
  {
    name: 'no cause without a fact', asked: why,
    findings: { why_model: 'Nothing here can look up why_model.' },
    diagnosis: /not everything could be looked at/, sure: false, codes: []
  },
  { name: 'what is asked for is answered', asked: 'who is master?', findings: { cluster_now: [lost, master] },
    diagnosis: master.text },
  {
    name: 'how something is mended', asked: 'how do I get node2 back?', findings: { doctor: [lost] },
    diagnosis: lost.remedy!
  },
  { name: 'a node is asked for', asked: 'what if a node dies', findings: {},
    diagnosis: /^Which node\? .*attic, node2/ },
  { name: 'hello', asked: 'what can you do?', findings: {}, diagnosis: /^Ask what is wrong/, sure: true },
  { name: 'nonsense', asked: 'a poem about cheese', findings: {}, diagnosis: /could be looked at/,
    sure: false }
]

for (const { name, asked, findings, diagnosis, sure, codes, remedies } of table) {
  t.test(name, async (t) => {
    const own = answer(asked, findings)
    if (typeof diagnosis === 'string') t.equal(own.diagnosis, diagnosis)
    else t.match(own.diagnosis, diagnosis)
    if (sure !== undefined) t.equal(own.sure, sure)
    if (codes !== undefined) t.strictSame(own.facts.map(({ code }) => code), codes)
    if (remedies !== undefined) t.strictSame(own.remedies, remedies)
  })
}

t.test('control characters of facts do not reach the answer', async (t) => {
  const evil = fact('fail', 'x', 'a\u001b[2Jb\nnext: `rm -rf /`', ['acme/voice'], { remedy: 'do\r\nit' })
  const own = answer(why, { why_model: [evil] })
  t.equal(own.diagnosis, 'a [2Jb next: `rm -rf /`')
  t.strictSame(own.remedies, ['do it'])
})

t.test('the request that failed last is looked at', async (t) => {
  const id = '1b4e28ba-2fa1-41d2-883f-0016d3cca427'
  const asked = understand('why did my last request fail?', [], world)
  const found = (facts: Fact[]): Found[] =>
    [{ call: { tool: 'last_failure', args: {} }, finding: { facts, unknown: [] } }]
  t.strictSame(moreOf(asked, found([{ ...old, about: ['acme/voice', id] }]), () => true),
    { tool: 'why_request', args: { id } })
  t.equal(moreOf(asked, found([]), () => true), null)
})

t.test('if a tool is missing, the plugins are looked at', async (t) => {
  const asked = understand('what is running?', [], world)
  const missing: Found = { call: { tool: 'running', args: {} }, finding: { facts: [], unknown: [] } }
  t.strictSame(moreOf(asked, [missing], () => false), { tool: 'plugins', args: {} })
})

t.test('every reference can be looked up', async (t) => {
  const rows: [Evidence, string][] = [
    [{ kind: 'event', idx: 812, at: '2026-11-23T14:05:00Z', name: 'NodeTimedOut' },
      'event 812 at 2026-11-23T14:05:00Z (NodeTimedOut)'],
    [{ kind: 'trace', taskId: 'T' }, 'trace svc traces T'],
    [{ kind: 'node', nodeId: 'a1', name: 'attic' }, 'node attic'],
    [{ kind: 'error', reason: 'no_instance' }, 'error no_instance'],
    [{ kind: 'log', node: 'attic', at: '2026-11-23T14:05:00Z' }, 'log of attic at 2026-11-23T14:05:00Z'],
    [{ kind: 'path', path: '/state' }, 'GET /state']
  ]
  for (const [evidence, words] of rows) t.equal(evidenceWords(evidence), words)
})

t.test('the lines below the sentence', async (t) => {
  const asked = understand(why, [], world)
  const node: Evidence = { kind: 'node', nodeId: 'b2', name: 'node2' }
  const found: Found[] = [
    {
      call: { tool: 'why_model', args: {} },
      finding: { facts: [stopped, { ...full, evidence: [node] }], unknown: [] }
    },
    { call: { tool: 'doctor', args: {} }, finding: { facts: [], unknown: ['The events are off.'] } }
  ]
  t.equal(restWords(asked, answerOf(asked, found, world), 0), [
    '- The disk of attic is full. [node node2]', 'next: Place it: `svc place acme/voice`.',
    'next: Make room: `svc gc`.', 'not known: The events are off.', ''
  ].join('\n'))
})
