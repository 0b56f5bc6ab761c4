import { AuditService } from '../api/audit.js'
import { COPIED_HOME_REMEDY } from '../api/cluster.js'
import { kernelErrors } from '../api/errors.js'
import { durableEvent, type ConflictDecl, type EventDecl, type Manifest } from '../api/plugin.js'
import { closedObject } from '../api/schema.js'
import { StateHistoryService } from '../api/services.js'
import { systemRoutes } from '../http/system-routes.js'

export const authorities = {
  read: 'See models, capabilities, instances and the state of the cluster.',
  invoke: 'Use capabilities, speech and chat.',
  'cluster:write': 'Place and delete instances, purge, download, control tracing, cancel others\' commands.',
  operator: 'Restart, configuration, events, node diagnostics, tokens, members.',
  'plugin:read': 'See which plugins are installed and what they declare.',
  'plugin:manage': 'Enable, disable and configure plugins.',
  approve: 'Approve spending with an outside provider.'
} as const

const conflicts = {
  disk_low: {
    severity: 'warn', meaning: 'Less than 10 GiB of disk space is free on the models volume.',
    remediation: 'Free disk space, or move the home to a larger volume (`--home`).'
  },
  disk_full: {
    severity: 'error', meaning: 'At most 2 GiB of disk space is free on the models volume.',
    remediation: 'Free disk space now; the event log is not written below 2 GiB.'
  },
  event_loop_lag: {
    severity: 'warn', meaning: 'The node answers slowly: its event loop is delayed by more than 250 ms.',
    remediation: 'Check for a busy machine (`svc status`) or too many streams on one node.'
  },
  state_not_durable: {
    severity: 'warn', meaning: 'The home cannot be written; decisions are lost at a restart.',
    remediation: 'Check disk space and permissions of the home directory.'
  },
  readings_disabled: {
    severity: 'warn', meaning: 'This node publishes no readings, so other nodes place no models on it.',
    remediation: 'To let it run models that other nodes place, start it without SVC_TELEMETRY_DISABLE=1.'
  },
  unreachable: {
    severity: 'warn', meaning: 'The node gives no sign of life.',
    remediation: 'Check that it runs and is reachable: `svc doctor` on both nodes shows why a dial fails.'
  },
  version_mismatch: {
    severity: 'warn', meaning: 'The nodes run different versions of svc.',
    remediation: 'Update all nodes to the same version, one after the other.'
  },
  quorum_mismatch: {
    severity: 'error',
    meaning: 'The nodes have different values of `cluster.quorum`, so decisions of a majority may be lost.',
    remediation: 'Set the same `cluster.quorum` in svc.yaml of all nodes, and restart those that differ.'
  },
  node_removed: {
    severity: 'error', meaning: 'This node was removed from the cluster, and the members refuse it.',
    remediation: 'Move its home aside (`mv HOME HOME.removed`), create a token with `svc join-token` on a ' +
      'member, and start the node with it: it joins as a new node.'
  },
  node_copied: {
    severity: 'error', meaning: 'Two processes run with the same node key, because a home was copied.',
    remediation: COPIED_HOME_REMEDY
  },
  certificate_ending: {
    severity: 'warn', meaning: 'The certificate of the API expires soon, or has expired.',
    remediation: 'Renew the files in api.tls_cert and api.tls_key; the node reloads them automatically.'
  },
  certificate_unusable: {
    severity: 'warn', meaning: 'The new certificate of the API cannot be used.',
    remediation: 'Fix the file; the node retries automatically, and uses the previous one until then.'
  },
  token_in_clear: {
    severity: 'warn', meaning: 'A token was sent over the network in plain HTTP, where others can read it.',
    remediation: 'Run `svc config set api.tls self` on that node and restart it, or put a TLS proxy in ' +
      'front of it; then replace the token: `svc token revoke ID`, `svc token create`.'
  },
  plugin_changed: {
    severity: 'error',
    meaning: 'Files of an installed plugin differ from the accepted ones, so it was not loaded.',
    remediation: '`svc plugin ls` names the file; install a good copy with `svc plugin install`.'
  },
  restart_needed: {
    severity: 'warn', meaning: 'svc.yaml has changed since this node started.',
    remediation: '`svc restart` applies it.'
  }
} as const satisfies Record<string, ConflictDecl>

const text = { type: 'string' } as const
const term = { type: 'integer', minimum: 0 } as const

const sessionEvent = closedObject({
  sessionId: text, term, masterNodeId: text, previousSessionId: { type: ['string', 'null'] }
}, ['sessionId', 'term', 'masterNodeId'])

const events = {
  NodeJoined: durableEvent('A node joined the cluster.', { nodeId: text }),
  NodeTimedOut: durableEvent('The master lost a node; `evidence` describes its last signs of life.',
    { nodeId: text, evidence: text }),
  ProtocolViolation: durableEvent(
    'A node closed its link to one that violated the protocol; `reason` names the close code.',
    { nodeId: text, reason: text }),
  NodeRemoved: durableEvent('A node was permanently removed from the cluster; `name` is its name.',
    { nodeId: text, name: text }),
  MasterElected: { plane: 'durable', summary: 'A node became master.', payload: sessionEvent },
  SessionChanged: { plane: 'durable', summary: 'The cluster started a new session.', payload: sessionEvent },
  StaleDirectiveRefused: durableEvent(
    'A node refused a directive of an outdated master, since it has voted in a later term.',
    { nodeId: text, masterNodeId: text, sessionId: text, term, promisedTerm: term }),
  StateDiverged: durableEvent('Two nodes had different data under the same number; it was reloaded.',
    { nodeId: text, document: text }),
  NodeRestarted: durableEvent('A restart of a node was requested.', { nodeId: text }),
  PluginEnabled: durableEvent('A plugin was enabled in svc.yaml.', { nodeId: text, plugin: text }),
  PluginDisabled: durableEvent('A plugin was disabled in svc.yaml.', { nodeId: text, plugin: text }),
  PluginChanged: durableEvent(
    'An installed plugin was not loaded, since one of its files differs from the accepted one.',
    { nodeId: text, plugin: text, file: text })
} as const satisfies Record<string, EventDecl>

/** The kernel's contributions as a manifest, so that checks and docs treat it like a plugin. */
export const kernelManifest = {
  name: 'kernel', version: '1.0.0', kernel: '^1.0.0',
  summary: 'Loads plugins, serves HTTP, keeps the cluster state.', authorities, errors: kernelErrors,
  conflicts, events, routes: systemRoutes,
  stateWhereabouts: ['apiUrl', 'sinkMultiaddr', 'configPath', 'interfaces'],
  stateReadings: ['lastSeen', 'nodeMemory', 'nodeSystem', 'nodeDisk', 'nodeNetwork', 'lastEventAppliedIdx'],
  state: {
    sessionId: 'The cluster session; changes when a new master starts one.',
    masterNodeId: 'The elected master, or null while none is known.', localNodeId: 'The node that answered.',
    instances: 'Placed model instances by id.', runners: 'Runner states by runner id.',
    downloads: 'Transfers by node.', tasks: 'Tasks in progress by id, without prompts, text or media.',
    lastSeen: 'Time of the last sign of life by node.', topology: 'Transport peers and their connections.',
    tracingEnabled: 'Whether new requests are traced.',
    lastEventAppliedIdx: 'Index of the newest control event this node knows.',
    nodeIdentities: 'Identity of each node.', node_identities: 'Same as `nodeIdentities`.',
    nodeMemory: 'Memory by node, bytes.', nodeSystem: 'Load, first accelerator and all accelerators by node.',
    nodeDisk: 'Disk space of the models volume by node, bytes.', nodeNetwork: 'Network interfaces by node.',
    nodeHealth: 'Health level and its reasons by node.',
    nodeResources: 'Backends, participation and capability conflicts by node.',
    nodeCapabilities: 'Current abilities of each node.',
    instanceFailures: 'Failed instances, newest first, at most 64.',
    cluster: 'Term, quorum, and the numbers of known and live nodes.'
  }
} as const satisfies Manifest

/** Whether the kernel itself provides a service; plugins provide two of those that it declares. */
export const isKernelService = (id: string): boolean =>
  id.startsWith('kernel.') && id !== AuditService.id && id !== StateHistoryService.id
