import t from 'tap'
import { bundled } from '../../index.js'
import { answerOf, leadOf, moreOf, type Found } from '../reader/answer.js'
import { planOf } from '../reader/plan.js'
import { evidenceWords, restWords } from '../reader/say.js'
import { understand } from '../reader/understand.js'
import type { Evidence, Fact, Finding } from '../../../kernel/cli/index.js'
import type { World } from '../reader/entities.js'

const world: World = {
  models: ['acme/voice', 'svc/guide'],
  nodes: [{ nodeId: 'a1', name: 'attic' }, { nodeId: 'b2', name: 'node2' }],
  instances: {}, master: 'a1', local: 'a1', nowMs: Date.parse('2026-11-23T20:22:00Z'), zoneMin: 0,
  plugins: bundled.map(({ manifest }) => manifest.name)
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

/** The findings of each tool; a tool without an entry is absent. */
type Findings = Record<string, Fact[] | string>

type Answered = ReturnType<typeof answerOf> & { first: string | null }

function answer (question: string, findings: Findings): Answered {
  const asked = understand(question, [], world)
  const found = planOf(asked, world).map((call): Found => {
    const of = findings[call.tool] ?? []
    const finding: Finding = typeof of === 'string'
      ? { facts: [], unknown: [of] }
      : { facts: of, unknown: [] }
    return { call, finding }
  })
  return { ...answerOf(asked, found, world), first: found[0] === undefined ? null : leadOf(asked, found[0]) }
}

interface Row {
  name: string
  asked: string
  findings: Findings
  diagnosis: string | RegExp
  sure?: boolean
  codes?: string[]
  remedies?: string[]
  first?: string | null
}

const why = 'why does acme/voice not answer?'

const table: Row[] = [
  {
    name: 'whether a node is up comes before its figures', asked: 'is attic up?',
    findings: { node: [live, machine] },
    diagnosis: live.text, sure: true, codes: ['node_live', 'machine']
  },
  {
    name: 'its memory is in its figures', asked: 'how much memory does attic have?',
    findings: { node: [live, machine] },
    diagnosis: machine.text, sure: true, codes: ['machine', 'node_live']
  },
  {
    name: 'a healthy cluster is healthy', asked: 'what is wrong?',
    findings: { doctor: [fact('ok', 'health', 'All checks are fine.')], cluster_now: [master] },
    diagnosis: 'Nothing is wrong.', sure: true, codes: ['health', 'master'], remedies: [], first: null
  },
  {
    name: 'what could not be looked at is no health', asked: 'is everything ok?',
    findings: { doctor: 'The state could not be read: 401.', cluster_now: [master] },
    diagnosis: /^Nothing that is wrong could be seen, but/, sure: false
  },
  {
    name: 'a part that could not be looked at is told, and nothing is sure', asked: 'is everything ok?',
    findings: { doctor: [fact('ok', 'health', 'Fine.')], running: 'What runs could not be read: 503.' },
    diagnosis: 'Nothing is wrong.', sure: false
  },
  {
    name: 'a fault is not sure to be the cause where what was asked about could not be seen',
    asked: 'why is my token refused?',
    findings: { tokens: 'The tokens could not be read: that needs the authority operator.', doctor: [lost] },
    diagnosis: lost.text, sure: false
  },
  {
    name: 'what broke a moment ago is what is broken, before what was', asked: 'what broke just now?',
    findings: { events: [fact('info', 'node_timed_out', 'At 20:21 node7 was lost.')], doctor: [lost] },
    diagnosis: lost.text, codes: ['node_lost', 'node_timed_out'], remedies: [lost.remedy!]
  },
  {
    name: 'what broke long ago is told by the events alone', asked: 'what broke at 14:05?',
    findings: { events: [fact('info', 'node_timed_out', 'At 14:05 node7 was lost.')], doctor: [lost] },
    diagnosis: 'At 14:05 node7 was lost.', codes: ['node_timed_out'], remedies: []
  },
  {
    name: 'where nothing could be read, the reason is the answer', asked: 'where is the event log?',
    findings: { events: 'The events could not be read: that needs the authority `read`.' },
    diagnosis: 'The events could not be read: that needs the authority `read`.', sure: false, codes: []
  },
  {
    name: 'the fault of the model comes first', asked: why,
    findings: { why_model: [stopped], doctor: [full] },
    diagnosis: stopped.text, sure: true, codes: ['model_stopped', 'disk_full'],
    remedies: [stopped.remedy!, full.remedy!], first: stopped.text
  },
  {
    name: 'the cause explains the symptom, which is not told before it', asked: why,
    findings: { why_model: [waits], doctor: [lost] },
    diagnosis: 'acme/voice waits for node2: node2 is lost for 5 min.', sure: true,
    codes: ['waiting_for_node', 'node_lost'], first: null
  },
  {
    name: 'what is elsewhere is named as such', asked: why,
    findings: { why_model: [answers], doctor: [lost] },
    diagnosis: 'acme/voice answers; elsewhere: node2 is lost for 5 min.', codes: ['node_lost', 'model_ready'],
    first: null
  },
  {
    name: 'what is over is no fault of now', asked: why,
    findings: { why_model: [answers], last_failure: [old] },
    diagnosis: 'acme/voice answers.', sure: true, codes: ['model_ready', 'request_failed'], remedies: []
  },
  {
    name: 'two faults are both named', asked: 'what is wrong?', findings: { doctor: [lost, full] },
    diagnosis: lost.text, codes: ['node_lost', 'disk_full'], remedies: [lost.remedy!, full.remedy!]
  },
  {
    name: 'the same fault of two tools is told once', asked: 'what is wrong?',
    findings: { doctor: [lost], cluster_now: [{ ...lost, text: 'node2 is gone.' }, master] },
    diagnosis: lost.text, codes: ['node_lost']
  },
  {
    name: 'a warning is not called broken', asked: 'what is wrong?',
    findings: { doctor: [fact('warn', 'disk_low', 'The disk of attic is nearly full.', ['attic'])] },
    diagnosis: 'Nothing is broken, but this will hurt: The disk of attic is nearly full.'
  },
  {
    name: 'no cause without a fact', asked: why,
    findings: { why_model: 'Nothing here can look up why_model.' },
    diagnosis: 'What is the matter with acme/voice could not be looked at.', sure: false, codes: []
  },
  {
    name: 'what is asked for is answered', asked: 'who is master?', findings: { cluster_now: [lost, master] },
    diagnosis: master.text, codes: ['master', 'node_lost']
  },
  {
    name: 'of a list what was asked for', asked: 'what is running on node2',
    findings: {
      running: [
        fact('info', 'placed', 'a/b runs.', ['attic']), fact('info', 'placed', 'c/d runs.', ['node2'])
      ]
    },
    diagnosis: 'c/d runs.', codes: ['placed', 'placed'], sure: true
  },
  {
    name: 'the worst disk', asked: 'how much space is left?',
    findings: { disks: [fact('ok', 'disk', '5 GB free.', ['node2']), full] }, diagnosis: full.text
  },
  {
    name: 'a node is asked for', asked: 'what if a node dies', findings: {},
    diagnosis: /^Which node\? .*attic, node2/
  },
  { name: 'hello', asked: 'what can you do?', findings: {}, diagnosis: /^Ask what is wrong/, sure: true },
  {
    name: 'nonsense', asked: 'a poem about cheese', findings: {},
    diagnosis: /not understood/, sure: false
  }
]

for (const { name, asked, findings, diagnosis, sure, codes, remedies, first } of table) {
  t.test(name, async (t) => {
    const own = answer(asked, findings)
    if (typeof diagnosis === 'string') t.equal(own.diagnosis, diagnosis)
    else t.match(own.diagnosis, diagnosis)
    if (sure !== undefined) t.equal(own.sure, sure)
    if (codes !== undefined) t.strictSame(own.facts.map(({ code }) => code), codes)
    if (remedies !== undefined) t.strictSame(own.remedies, remedies)
    if (first !== undefined) t.equal(own.first, first)
  })
}

t.test('a sentence that was given early stays', async (t) => {
  for (const { asked, findings } of table) {
    const own = answer(asked, findings)
    if (own.first !== null) t.equal(own.diagnosis, own.first, asked)
  }
})

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

t.test('where the tool is missing, the plugins are looked at', async (t) => {
  const [asked, health] = ['where is the event log?', 'what is wrong?'].map((text) =>
    understand(text, [], world))
  const missing: Found = {
    call: { tool: 'events', args: {} }, finding: { facts: [], unknown: ['Nothing here can look up events.'] }
  }
  t.strictSame(moreOf(asked!, [missing], () => false), { tool: 'plugins', args: {} })
  t.equal(moreOf(health!, [missing], () => false), null, 'the checks do that')
  const off = (name: string): Fact => fact('info', 'plugin_off', `The plugin ${name} is off.`, [name],
    { remedy: `Switch it on with \`svc plugin enable ${name}\`.` })
  const all = fact('info', 'plugins', '10 of 12 plugins are on.', ['access'])
  const facts = [all, off('logs'), off('event-log')]
  const plugins: Found = { call: { tool: 'plugins', args: {} }, finding: { facts, unknown: [] } }
  t.match(answerOf(asked!, [plugins, missing], world), {
    diagnosis: 'The plugin event-log is off.', sure: false,
    remedies: [/enable event-log/, /enable logs/], unknown: [/look up events/]
  })
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
