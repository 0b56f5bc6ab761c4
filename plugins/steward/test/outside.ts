/**
 * Fifty questions about broken clusters, in the words of people who report problems in public trackers, with
 * what a right answer says and what it must not say. They were written before any answer was seen: mend a
 * class of faults in the code, never a question here.
 */
import { recorded } from '../../../test/recorded.js'

export const NOW = '2026-11-23T20:30:00.000Z'

export type Answers = Record<string, unknown>
interface Node { level: string, reasons: object[] }
export interface State extends Record<string, unknown> {
  nodeHealth: Record<string, Node>
  nodeIdentities: Record<string, Record<string, unknown>>
  nodeMemory: Record<string, { ramTotal: { inBytes: number }, ramAvailable: { inBytes: number } }>
  nodeDisk: Record<string, { total: { inBytes: number }, available: { inBytes: number } }>
  runners: Record<string, unknown>
  cluster: Record<string, unknown>
}

export const VM = 'fewbz4dioi7epfbb7jocx4w5ve'
export const NODE2 = 'qxfskgjjemel4htn2p7nsiebhm'
export const NODE3 = '6iyishaic2ysjchg5imxhidlle'
const VOICE = '1a838048-08c0-4956-9188-fb7b3f066b1c'
const TASK = '3f0c8c3a-52a4-4a53-9d0e-7e1a8e6f2b11'
export const GIB = 2 ** 30

/** A healthy cluster of three nodes; the second argument changes its answers. */
export function world (
  change: (answers: Answers, state: State) => void = () => {}, base = 'three-nodes'
): Answers {
  const answers: Answers = {
    '/readyz': { ready: true, checks: [] }, '/v1/tracing': { enabled: false },
    '/v1/traces/cluster?': { traces: [] }, '/store/downloads': { downloads: [] },
    '/store/health': { freeBytes: 90 * GIB, totalBytes: 250 * GIB }, '/v1/tokens': { tokens: [] },
    '/v1/logs/cluster?': { nodes: [], lines: [] }, '/models/copies': { copies: [] },
    '/config': (recorded('request-failed') as Answers)['/config'], ...recorded(base)
  }
  for (const model of ['svc/guide', 'svc/voice-en']) {
    answers[`/models/${model}/availability`] = { modelId: model, links: LINKS }
  }
  // The machine of the recording had tried addresses of other clusters.
  const list = answers['/cluster/members'] as { dials: { installId: string | null }[] }
  list.dials = list.dials.filter(({ installId }) => installId !== null)
  change(answers, answers['/state'] as State)
  return answers
}

const link = (name: string, ok: boolean | null, message: string, more: object = {}): object =>
  ({ link: name, ok, message, remedy: null, code: null, ...more })
const LINKS = [link('card', true, 'its card is known'), link('copy', true, 'on vm'),
  link('backend', true, 'cpu'), link('placement', true, 'on vm'), link('runner', true, 'ready on vm'),
  link('request', true, 'it answers')]
export const broken = (at: string, message: string, more: object): object[] => {
  const i = LINKS.findIndex((one) => (one as { link: string }).link === at)
  return [...LINKS.slice(0, i), link(at, false, message, more),
    ...LINKS.slice(i + 1).map((one) => ({ ...one, ok: null, message: 'not checked' }))]
}

let idx = 100
export const events = (answers: Answers, ...list: [at: string, kind: string, payload: object][]): void => {
  const page = answers['/events?'] as { events: object[] }
  page.events.push(...list.map(([at, kind, payload]) => ({
    idx: idx++, at: `2026-11-23T${at}Z`, origin: VM, sessionId: 's', id: `e${idx}`, event: { [kind]: payload }
  })))
}
const session = (masterNodeId: string, term: number): object =>
  ({ sessionId: `s${term}`, term, masterNodeId, previousSessionId: null })
export const ill = (state: State, nodeId: string, level: string, reason: object): void => {
  state.nodeHealth[nodeId] = { level, reasons: [{ severity: level, ...reason }] }
}

const worlds = {
  fine: () => world(),
  churn: () => world((a) => {
    events(a, ['20:26:01.000', 'SessionChanged', session(NODE2, 2)],
      ['20:26:14.000', 'SessionChanged', session(NODE3, 3)],
      ['20:26:29.000', 'SessionChanged', session(VM, 4)])
  }),
  lost: () => world(undefined, 'node-lost'),
  drained: () => world((a, s) => {
    s['drainedNodes'] = { '16935324-4c00-4d3c-9e44-e4930989139f': { since: '2026-11-23T20:10:00.000Z' } }
    events(a, ['20:10:00.000', 'NodeDrained', { nodeId: NODE2, name: 'node2', by: 'operator' }],
      ['20:28:00.000', 'TaskFailed', {
        taskId: TASK, commandId: TASK, errorType: 'shutting_down',
        errorMessage: 'The task of svc/voice-en failed with shutting_down: The node is shutting down.'
      }])
  }),
  quorum: () => world((_, s) => {
    s['masterNodeId'] = null
    s.cluster = { ...s.cluster, quorum: 'lost', liveNodes: 1 }
    s['topology'] = { nodes: [VM], connections: {} }
    s['lastSeen'] = { [VM]: NOW, [NODE2]: '2026-11-23T20:12:00.000Z', [NODE3]: '2026-11-23T20:13:00.000Z' }
  }),
  disk: () => world((_, s) => {
    s.nodeDisk[NODE2] = { total: { inBytes: 250 * GIB }, available: { inBytes: GIB } }
    ill(s, NODE2, 'error', { code: 'disk_full', message: '1.0 GiB is free on the volume of the home',
      remediation: 'Free disk space: `svc purge`.' })
  }),
  crash: () => world((a, s) => {
    const [runner] = Object.keys(s.runners).slice(1)
    s.runners[runner!] = { RunnerFailed: { errorMessage: 'out of memory: killed by signal SIGKILL' } }
    events(a, ['20:15:00.000', 'RunnerFailed', {
      modelId: 'svc/voice-en', instanceId: VOICE, runnerId: runner, attempts: 5, errorCode: 'out_of_memory',
      errorMessage: 'out of memory: killed by signal SIGKILL'
    }])
    a['/models/svc/voice-en/availability'] = { links: broken('runner',
      'its runner on vm failed: out of memory: killed by signal SIGKILL',
      { code: 'runner_failed',
        remedy: 'Restart it: `svc stop svc/voice-en`, then `svc place svc/voice-en`.' }) }
  }),
  token: () => world((a) => {
    const one = (label: string, expires: string | null): object => ({
      id: `id-${label}`, label, authorities: ['read', 'invoke'], created: '2026-10-01T00:00:00.000Z', expires,
      revoked: false, lastUsedDay: '2026-11-22'
    })
    a['/v1/tokens'] = { tokens: [one('laptop', '2026-11-23T08:00:00.000Z'), one('phone', null)] }
  }),
  waits: () => world((a, s) => {
    const message = 'acme/big needs 61.0 GiB, and vm has the most free memory, 22.8 GiB'
    s['waitingInstances'] = { W: { instanceId: 'W', modelId: 'acme/big', reason: 'insufficient_memory',
      message, since: '2026-11-23T20:20:00.000Z' } }
    events(a, ['20:20:00.000', 'InstanceWaiting',
      { instanceId: 'W', modelId: 'acme/big', reason: 'insufficient_memory', message }]);
    (a['/v1/models'] as { data: object[] }).data.push({ id: 'acme/big', installed: true })
    a['/models/acme/big/availability'] = { links: broken('placement', message,
      { code: 'does_not_fit', remedy: 'Free memory, or add a node.' }) }
  }),
  flaps: () => world((a) => {
    for (const hour of ['10', '13', '16', '19']) {
      events(a, [`${hour}:00:00.000`, 'NodeTimedOut', { nodeId: NODE2, evidence: 'lost' }],
        [`${hour}:02:00.000`, 'NodeJoined', { nodeId: NODE2 }])
    }
  }),
  clock: () => world((a) => {
    const { nodes } = a['/v1/diagnostics/cluster'] as { nodes: { name: string, clockAheadMs: number }[] }
    for (const node of nodes) if (node.name === 'node3') node.clockAheadMs = 95_000
  }),
  gated: () => world((a) => {
    a['/store/downloads'] = { downloads: [{
      modelId: 'meta/Llama-3-8B', status: 'failed', reason: 'hub_refused', downloadedBytes: 0,
      totalBytes: 9e9,
      error: 'the hub answered 401: access to this model is gated'
    }] }
  }),
  over: () => world((a) => {
    events(a, ['18:30:00.000', 'RunnerFailed', {
      modelId: 'svc/guide', instanceId: 'I', runnerId: 'R', attempts: 3, errorCode: 'engine_crashed',
      errorMessage: 'segmentation fault'
    }], ['18:31:00.000', 'InstanceCreated', { modelId: 'svc/guide', instanceId: 'J', nodeIds: [VM] }])
  }),
  edited: () => world((a) => {
    a['/config'] = { ...a['/config'] as object, file: '/srv/svc1/svc.yaml', restart_needed: true }
  }),
  mixed: () => world((_, s) => { s.nodeIdentities[NODE3]!['svcVersion'] = '0.2.0' })
}

type World = keyof typeof worlds
export const answersIn = (name: World): Answers => worlds[name]()

/** A question, what its answer must say (every pattern) and what it must not say (none). */
export type Row = readonly [world: World, question: string, must: RegExp[], not?: RegExp[]]

export const CALM = /nothing is (?:wrong|broken)|everything is (?:fine|ok)/i

export const QUESTIONS: readonly Row[] = [
  ['churn', 'why do all my connections drop every few minutes', [/master/i, /3|three/], [CALM]],
  ['churn', 'Something is wrong, requests ended with session_changed around 20:26', [/master/i], [CALM]],
  ['churn', 'is the leader election stable?', [/3|three/, /master/i], [CALM]],
  ['churn', 'who is leading right now', [/\bvm\b/]],
  ['lost', 'node3 disappeared from the list, what happened?', [/node3/, /lost/], [CALM]],
  ['lost', 'my third machine is gone', [/node3/, /lost/, /svc up/], [CALM]],
  ['lost', 'why is node2 down?', [/node2/, /live|up/], [/node2 is (?:down|lost)/i]],
  ['lost', 'cluster is degraded since this evening', [/node3/, /lost/], [CALM]],
  ['lost', 'How do I bring node3 back?', [/svc up/]],
  ['lost', 'how many nodes are alive', [/2 of 3|\b2\b|two/]],
  ['drained', 'request was refused by node2, shutting_down', [/drain|shutting_down/],
    [/--host 0\.0\.0\.0/, CALM]],
  ['drained', 'why does nothing get scheduled on node2 anymore', [/node2/, /drain/, /undrain/],
    [/--host/, CALM]],
  ['drained', 'node2 does not accept new models', [/drain/, /svc undrain/], [CALM]],
  ['quorum', "can't place anything, the API says no_quorum",
    [/1 of 3|too few|quorum/, /svc up|members remove/],
    [CALM]],
  ['quorum', 'Cluster stuck, no leader elected', [/quorum|too few/], [CALM]],
  ['quorum', 'which nodes are missing?', [/node2/, /node3/]],
  ['disk', 'pulling models fails on node2 with ENOSPC', [/node2/, /disk|GiB/, /svc purge|free/i], [CALM]],
  ['disk', 'no space left on device', [/node2/, /disk/i], [CALM]],
  ['disk', 'how much disk is left on node2?', [/1\.0 GiB|1 GiB/, /node2/]],
  ['disk', 'is it safe to restart node2', [/node2/]],
  ['crash', 'TTS stopped working, no audio at all', [/voice-en/, /memory|SIGKILL|runner/], [CALM]],
  ['crash', 'svc/voice-en keeps crashing, what is the cause?', [/out of memory|SIGKILL/], [CALM]],
  ['crash', 'that voice is broken', [/voice-en/, /memory|SIGKILL|failed/], [CALM]],
  ['crash', 'Is svc/guide affected too?', [/svc\/guide/, /answers|ready/]],
  ['crash', 'what failed in the last hour?', [/voice-en/, /20:15|memory|SIGKILL/], [CALM]],
  ['token', 'Getting 401 from my laptop since this morning', [/laptop/, /expired/, /token create/], [CALM]],
  ['token', 'phone cannot log in', [/phone/, /valid/], [/phone (?:has )?expired/]],
  ['waits', 'acme/big is pending forever', [/61/, /memory|GiB/], [CALM]],
  ['waits', 'Why does acme/big not start? enough RAM should be there', [/61/, /22\.8/], [CALM]],
  ['waits', 'Pod stuck in pending... I mean the model never gets placed', [/acme\/big/, /memory|GiB/],
    [CALM]],
  ['flaps', 'node2 is flaky', [/node2/, /4|four/], [CALM]],
  ['flaps', 'why was node2 unreachable at 16:00', [/node2/, /lost/, /16:00/], [CALM]],
  ['flaps', 'how often did we lose node2 today?', [/4|four/]],
  ['clock', 'tokens are rejected on node3 with a weird time error', [/clock/i, /95/, /node3/], [CALM]],
  ['clock', 'are the clocks in sync?', [/95/, /node3/]],
  ['gated', 'download of meta/Llama-3-8B does not work', [/gated|401/], [CALM]],
  ['gated', 'pull failed, help', [/Llama-3-8B/, /401|gated/], [CALM]],
  ['over', 'svc/guide was unavailable around 18:30, what happened?', [/18:30/, /segmentation|failed/],
    [CALM]],
  ['over', 'why is svc/guide down?', [/svc\/guide/, /answers|ready/], [/svc\/guide is down/i]],
  ['edited', 'I changed a setting and nothing happens', [/svc\.yaml/, /restart/], [CALM]],
  ['mixed', 'since the update node3 behaves strangely', [/0\.2\.0/, /version/i], [CALM]],
  ['fine', 'is everything ok?', [/nothing is wrong|well|fine/i], [/lost|failed/]],
  ['fine', 'Everything is slow and requests time out', [/check|found/i], [CALM]],
  ['fine', 'why did the GPU melt', [/check|found|no /i], [CALM]],
  ['fine', 'how much memory is free on the biggest node?', [/2[23]\.\d GiB/]],
  ['fine', 'how do I add another machine to the cluster?', [/join-token|SVC_JOIN/]],
  ['fine', 'where does svc/guide run?', [/\bvm\b/]],
  ['fine', 'can I turn off node3?', [/node3/, /quorum|left|nothing|would/]],
  ['fine', 'compare node2 and node3', [/node2/, /node3/, /GiB/]],
  ['fine', 'warum antwortet node2 nicht?', [/node2/, /live/], [CALM]]
]
