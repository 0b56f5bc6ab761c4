/**
 * Eighty questions by an outsider who had not read the steward, worded like reports in the trackers and
 * forums of similar systems, with what a right answer says and what it must not say. They were written before
 * any answer was seen: mend a class of faults in the code, never a question here.
 */
import {
  answersIn as known, broken, CALM, events, GIB, ill, NODE2, NODE3, VM, world, type Answers
} from './outside.js'

export { NOW } from './outside.js'

const GUIDE = 'de04e65b-c26e-4052-afcb-3fb778d9f871'

const renamed = (answers: Answers): Answers =>
  JSON.parse(JSON.stringify(answers).replaceAll('"node3"', '"attic"')) as Answers

const worlds = {
  attic: () => renamed(known('lost')),
  stopped: () => world((a, s) => {
    const at = '2026-11-23T19:50:00.000Z'
    const instances = s['instances'] as Record<string, unknown>
    delete instances[GUIDE]
    delete s.runners[Object.keys(s.runners)[0]!]
    events(a, ['19:50:00.000', 'InstanceDeleted', { instanceId: GUIDE, modelId: 'svc/guide' }])
    const remedy = 'Place it: `svc place svc/guide`.'
    a['/models/svc/guide/availability'] = {
      model_id: 'svc/guide', available: false, broken_link: 'placement', message: `it was stopped at ${at}`,
      remedy, links: broken('placement', `it was stopped at ${at}`, { remedy })
    }
    const [guide] = (a['/v1/models'] as { data: object[] }).data
    Object.assign(guide!, { ready: false, available: false, broken_link: 'placement', remedy })
  }),
  hot: () => world((_, s) => {
    ill(s, NODE2, 'warn', { code: 'event_loop_lag', message: 'the event loop is 900 ms late',
      remediation: 'Check for a busy machine (`svc status`) or too many streams on one node.' })
  }),
  cert: () => world((_, s) => {
    ill(s, VM, 'warn', { code: 'certificate_ending',
      message: 'the certificate of the API expires on 2026-11-29, in 6 days',
      remediation: 'Renew the files in api.tls_cert and api.tls_key; the node reloads them automatically.' })
  }),
  gpu: () => world((_, s) => {
    ill(s, NODE3, 'error', { code: 'gpu_serving_disabled',
      message: 'an NVIDIA GPU is visible, but llama.cpp would run on the CPU only',
      remediation: 'Set plugins.runners.backends.llama to cuda in svc.yaml and run `svc engine add`.' })
  }),
  two: () => {
    const answers = known('crash')
    const state = answers['/state'] as Parameters<typeof ill>[0]
    state.nodeDisk[NODE2] = { total: { inBytes: 250 * GIB }, available: { inBytes: GIB } }
    ill(state, NODE2, 'error', { code: 'disk_full', message: '1.0 GiB is free on the volume of the home',
      remediation: 'Free disk space: `svc purge`.' })
    return answers
  },
  pulling: () => world((a) => {
    a['/store/downloads'] = { downloads: [{
      modelId: 'Qwen/Qwen3-8B-GGUF', status: 'downloading', progress: 0.45, error: null, reason: null,
      downloadedBytes: 3.6e9, totalBytes: 8e9, bytesPerSecond: 20e6, etaMs: 220_000, source: 'hub',
      revision: 'main', startedAt: '2026-11-23T20:27:00.000Z'
    }] }
  }),
  tight: () => world((_, s) => {
    s.nodeMemory[NODE3]!.ramAvailable = { inBytes: GIB / 2 }
  }),
  restarted: () => world((a) => {
    events(a, ['14:00:05.000', 'NodeRestarted', { nodeId: NODE3 }],
      ['14:00:20.000', 'NodeJoined', { nodeId: NODE3 }])
  }),
  evicted: () => world((a) => {
    events(a, ['19:00:00.000', 'StagedModelEvicted',
      { nodeId: NODE2, modelId: 'acme/big', freedBytes: 61 * GIB, trigger: 'room for a transfer' }]);
    (a['/v1/models'] as { data: object[] }).data.push({ id: 'acme/big', installed: true })
  }),
  unplugged: () => world((a) => {
    events(a, ['09:12:00.000', 'PluginDisabled', { nodeId: VM, plugin: 'chat' }])
    const { plugins } = a['/v1/plugins'] as { plugins: { name: string }[] }
    Object.assign(plugins.find(({ name }) => name === 'chat')!,
      { enabled: false, why: 'it is disabled in svc.yaml' })
  }),
  removed: () => world((a) => {
    events(a, ['17:45:00.000', 'NodeRemoved', { nodeId: 'z3k5yq2x7atticatticatticat', name: 'attic' }])
  }),
  crowded: () => world((a) => {
    for (let i = 0; i < 12; i++) {
      events(a, [`19:${10 + i * 4}:00.000`, 'TaskFailed', {
        taskId: `3f0c8c3a-52a4-4a53-9d0e-7e1a8e6f2c${10 + i}`, errorType: 'overloaded',
        commandId: `3f0c8c3a-52a4-4a53-9d0e-7e1a8e6f2c${10 + i}`,
        errorMessage: 'The task of svc/guide failed with overloaded: Too many requests at once.'
      }])
    }
  }),
  mute: () => world((_, s) => {
    ill(s, NODE2, 'warn', { code: 'readings_disabled', message: 'SVC_TELEMETRY_DISABLE=1 is set',
      remediation: 'To let it run models that other nodes place, start it without SVC_TELEMETRY_DISABLE=1.' })
  }),
  upstream: () => world((_, s) => {
    ill(s, VM, 'warn', { code: 'upstream_down', message: 'openrouter answers 401 to its key',
      remediation: 'Start it, or correct its address and key in svc.yaml.' })
  }),
  relay: () => world((_, s) => {
    ill(s, VM, 'warn', { code: 'relay_unreachable', message: 'wss://relay.example.org refuses the connection',
      remediation: 'Check that the relay runs (its /healthz) and that relay.url is its address.' })
  }),
  soon: () => world((a) => {
    const one = (label: string, expires: string | null): object => ({
      id: `id-${label}`, label, authorities: ['read', 'invoke'], created: '2026-10-01T00:00:00.000Z', expires,
      revoked: false, lastUsedDay: '2026-11-23'
    })
    a['/v1/tokens'] = { tokens: [one('homeassistant', '2026-11-24T06:00:00.000Z'), one('phone', null)] }
  }),
  copied: () => world((_, s) => {
    ill(s, NODE3, 'error', { code: 'node_copied',
      message: 'two processes run with the key of node3, from /srv/a and /srv/b',
      remediation: 'Stop the process that runs from a copied home, and start it with `svc join-token`.' })
  })
}

type World = keyof typeof worlds | Parameters<typeof known>[0]
export const answersIn = (name: World): Answers =>
  name in worlds ? worlds[name as keyof typeof worlds]() : known(name as Parameters<typeof known>[0])

/** A question, what its answer must say (every pattern) and what its diagnosis must not say (none). */
export type Row = readonly [world: World, question: string, must: RegExp[], not?: RegExp[]]

export const QUESTIONS: readonly Row[] = [
  ['attic', 'the attic machine is dead, what now?', [/attic/, /lost|no sign/i, /svc up/], [CALM]],
  ['attic', 'since when is attic gone', [/attic/, /20:25/]],
  ['attic', 'is vm down too?', [/\bvm\b/, /live|up\b/], [/\bvm is (?:down|lost)/i]],
  ['attic', 'which of my boxes is offline', [/attic/], [CALM]],
  ['attic', 'node2 ist weg', [/node2/, /live|up\b/], [/node2 is (?:down|lost)/i]],
  ['attic', '¿Por qué no responde attic?', [/attic/, /lost|no sign/i], [CALM]],
  ['attic', 'atic went offline again', [/attic/, /lost|no sign/i], [CALM]],
  ['stopped', 'who stopped svc/guide?', [/stopped/, /19:50/], [CALM]],
  ['stopped', 'chat doesnt work anymore since tonight', [/svc\/guide/, /stopped/, /svc place/], [CALM]],
  ['stopped', 'Why is the model list fine but every chat request returns 404 no_instance?',
    [/svc\/guide/, /stopped|not placed/, /svc place/], [CALM]],
  ['stopped', 'Le modèle svc/guide ne répond plus', [/svc\/guide/, /stopped/], [CALM]],
  ['stopped', 'how do I get svc/guide running again?', [/svc place svc\/guide/]],
  ['stopped', 'svc/guideが応答しません', [/svc\/guide/, /stopped/], [CALM]],
  ['hot', 'node2 is awfully slow today', [/node2/, /loop|lag|slowly/i], [CALM]],
  ['hot', '为什么 node2 这么慢', [/node2/, /loop|lag|slowly/i], [CALM]],
  ['hot', 'latency went up, where is the bottleneck?', [/node2/, /loop|lag|slowly/i], [CALM]],
  ['cert', 'will my browser complain about the certificate soon?', [/certificate/i, /6 days|11-29/], [CALM]],
  ['cert', 'when does the cert run out', [/certificate/i, /6 days|11-29/], [CALM]],
  ['cert', 'Läuft bald ein Zertifikat ab?', [/certificate/i, /6 days|11-29/], [CALM]],
  ['gpu', 'node3 ignores its GPU, everything runs on the CPU',
    [/node3/, /GPU/, /backends|engine add/], [CALM]],
  ['gpu', 'gpu not used since driver update', [/node3/, /GPU/], [CALM]],
  ['gpu', 'ollama used my 3090, why does svc not?', [/node3/, /GPU/], [CALM]],
  ['gpu', 'GPUが使われていないのはなぜ?', [/node3/, /GPU/], [CALM]],
  ['two', 'voice is dead and node2 refuses downloads',
    [/voice-en/, /memory|SIGKILL|failed/, /node2/, /disk|GiB/], [CALM]],
  ['two', 'what is the most urgent problem?', [/node2|voice-en/, /disk|SIGKILL|memory/], [CALM]],
  ['two', 'anything broken? list everything', [/voice-en/, /node2/, /disk|GiB/], [CALM]],
  ['two', 'Tout est en panne : la voix et le disque de node2', [/voice-en/, /node2/, /disk|GiB/], [CALM]],
  ['pulling', 'hows the qwen download going', [/Qwen3-8B/, /45|3\.[46]/]],
  ['pulling', 'when will Qwen/Qwen3-8B-GGUF be there?', [/Qwen3-8B/, /[34] min|220|3m|45|20:33/]],
  ['pulling', 'download stuck at 45%', [/Qwen3-8B/, /downloading|progress|MB|MiB|GiB/]],
  ['pulling', '下载到哪里了', [/Qwen3-8B/]],
  ['tight', 'which node has no memory left', [/node3/, /0\.5 GiB|512/]],
  ['tight', 'can I run a 12 GiB model on node3?', [/node3/, /0\.5 GiB|512/]],
  ['tight', 'oom on node3', [/node3/, /0\.5 GiB|512/], [CALM]],
  ['tight', 'where is the most RAM free?', [/node2|\bvm\b/, /22\.8/]],
  ['tight', '¿Cuánta memoria libre tiene node3?', [/node3/, /0\.5 GiB|512/]],
  ['restarted', 'who rebooted node3 at 2pm', [/node3/, /14:00/, /restart/i]],
  ['restarted', 'Wann wurde node3 neu gestartet?', [/node3/, /14:00/]],
  ['evicted', 'acme/big vanished from node2, who deleted it?', [/acme\/big/, /evict/i, /19:00|room/]],
  ['unplugged', 'chat completions return 404 plugin_disabled', [/chat/, /svc plugin enable/], [CALM]],
  ['unplugged', 'which plugin did someone switch off this morning', [/chat/, /09:12|disabled/]],
  ['removed', 'where did attic go?', [/attic/, /removed/, /17:45/]],
  ['removed', 'attic should be in the list but its missing', [/attic/, /removed/], [CALM]],
  ['crowded', 'we get 429 all the time', [/429|overloaded/, /slots|instance|Retry-After/i], [CALM]],
  ['crowded', 'how many requests failed this evening?', [/12|twelve/]],
  ['crowded', 'requests to svc/guide fail randomly, but not always',
    [/svc\/guide/, /overloaded|too many/i], [CALM]],
  ['crowded', 'warum werden Anfragen abgelehnt?', [/overloaded|too many/i], [CALM]],
  ['mute', 'node2 never gets a model, why?', [/node2/, /readings|SVC_TELEMETRY_DISABLE/], [CALM]],
  ['upstream', 'openrouter models are gone', [/openrouter/, /401|server/], [CALM]],
  ['relay', 'cant reach home from my phone when i am outside', [/relay/i], [CALM]],
  ['soon', 'will any token expire this week?', [/homeassistant/, /11-24|9 h|9\.5 h|tomorrow/]],
  ['soon', 'homeassistant will stop working tomorrow, right?', [/homeassistant/, /expire/]],
  ['copied', 'node3 keeps restarting itself', [/node3/, /copied|same node key|two processes/], [CALM]],
  ['token', 'my laptop gets unauthorized, phone works', [/laptop/, /expired/], [CALM]],
  ['token', 'mon laptop reçoit 401 depuis ce matin', [/laptop/, /expired/], [CALM]],
  ['token', 'which tokens are no longer valid?', [/laptop/, /expired/], [/phone (?:has )?expired/]],
  ['waits', 'No suitable workers for acme/big', [/61/, /22\.8/], [CALM]],
  ['waits', 'how much memory does acme/big need?', [/acme\/big/, /61/]],
  ['waits', 'acme/big 为什么一直在等待', [/acme\/big/, /61/, /memory|GiB/], [CALM]],
  ['flaps', 'node2 keeps dropping off the network every 3 hours', [/node2/, /4|four/], [CALM]],
  ['flaps', 'since when is node2 back?', [/node2/, /19:02/]],
  ['flaps', 'is node2 or node3 more reliable?', [/node2/, /4|four/, /node3/]],
  ['clock', 'join tokens from node3 are always expired', [/clock/i, /95/, /node3/], [CALM]],
  ['churn', 'streams broke off three times within a minute', [/master/i, /3|three/], [CALM]],
  ['churn', 'when was the last failover', [/20:26:29/, /\bvm\b/]],
  ['mixed', 'did everybody get the update?', [/node3/, /0\.2\.0/], [CALM]],
  ['edited', 'restart_needed, what is that', [/svc\.yaml/, /restart/]],
  ['gated', 'I cant get llama 3, says I have no access',
    [/Llama-3-8B/, /401|gated/, /SVC_HUB_TOKEN|terms/i], [CALM]],
  ['quorum', 'is it safe to remove node2 and node3 for good?', [/node2/, /node3/, /quorum|too few/i]],
  ['quorum', 'クラスターが何も決められません', [/quorum|too few/i], [CALM]],
  ['disk', 'node2磁盘满了怎么办', [/node2/, /disk|GiB/, /svc purge/], [CALM]],
  ['drained', 'when was node2 drained and by whom', [/20:10/, /operator/]],
  ['fine', 'how do i back up a node?', [/node\.key|backup/i]],
  ['fine', 'how can I let Home Assistant use the voice?', [/wyoming|home-assistant\.md/i]],
  ['fine', 'is it safe to upgrade one node at a time?', [/one after the other|version/i]],
  ['fine', 'how do I use Open WebUI with this', [/Open WebUI|clients\.md/i]],
  ['fine', 'can I unload a model without deleting its files?', [/svc stop/]],
  ['fine', 'svc/guide is dead', [/svc\/guide/, /answers|ready/], [/svc\/guide is (?:dead|down)/i, CALM]],
  ['fine', 'why did node3 crash last night?', [/node3/, /live|no /i],
    [/node3 (?:is|was) (?:lost|down)/i, CALM]],
  ['fine', 'do I need to open a port in my firewall?', [/cluster\.port|52416/]]
]
