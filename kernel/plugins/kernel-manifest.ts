import { CallerService } from '../api/callers.js'
import { COPIED_HOME_REMEDY } from '../api/cluster.js'
import { kernelErrors } from '../api/errors.js'
import { IdentityService } from '../api/identity.js'
import {
  CapabilityHostService, ClusterService, CommandService, ConfigService, DeclarationService,
  EventTapService, InspectionService, ListenerService, LogRingService, OwnApiService,
  SessionService, StateService, GossipService, TokenService
} from '../api/services.js'
import { VitalsService } from '../api/vitals.js'
import { systemRoutes } from '../http/system-routes.js'
import { TracerService } from '../observe/tracer.js'
import { TrafficService } from '../http/traffic.js'
import type { ConflictDecl, EventDecl, Manifest } from '../api/plugin.js'
import type { JsonSchema } from '../api/schema.js'

export const authorities = {
  read: 'See models, capabilities, instances and the state of the cluster.',
  invoke: 'Use capabilities, speech and chat.',
  'cluster:write': 'Place and delete instances, purge, download, switch tracing, cancel others\' commands.',
  operator: 'Restart, configuration, events, node diagnostics, tokens, members.',
  'plugin:read': 'See which plugins are installed and what they declare.',
  'plugin:manage': 'Enable, disable and configure plugins.',
  approve: 'Approve spending with an outside provider.'
} as const

const conflicts = {
  disk_low: {
    severity: 'warn',
    meaning: 'Less than 10 GiB are free on the models volume.',
    remediation: 'Free space, or move the home to a larger volume (`--home`).'
  },
  disk_full: {
    severity: 'error',
    meaning: 'At most 2 GiB are free on the models volume.',
    remediation: 'Free space now; nothing is written to the event log below 2 GiB.'
  },
  event_loop_lag: {
    severity: 'warn',
    meaning: 'The node answers slowly: its event loop is late by over 250 ms.',
    remediation: 'Look for a busy machine (`svc status`) or too many streams on one node.'
  },
  state_not_durable: {
    severity: 'warn',
    meaning: 'The home cannot be written; what is decided is lost at a restart.',
    remediation: 'Check free space and permissions of the home directory.'
  },
  readings_disabled: {
    severity: 'warn',
    meaning: 'This node publishes no readings, so other nodes place no models on it.',
    remediation: 'Start it without SVC_TELEMETRY_DISABLE=1 if it is to run models that other nodes place.'
  },
  unreachable: {
    severity: 'warn',
    meaning: 'The node gives no sign of life.',
    remediation: 'Look whether it runs and can be reached: `svc doctor` on both nodes shows why a dial fails.'
  },
  version_mismatch: {
    severity: 'warn',
    meaning: 'The nodes run different versions of svc.',
    remediation: 'Bring all nodes to the same version, one after the other.'
  },
  quorum_mismatch: {
    severity: 'error',
    meaning: 'The nodes have different `cluster.quorum`, so that what a majority decided may be lost.',
    remediation: 'Set one `cluster.quorum` in svc.yaml of all nodes, and restart those that differ.'
  },
  node_removed: {
    severity: 'error',
    meaning: 'This node was removed from the cluster, and the members refuse it.',
    remediation: 'Move its home aside (`mv HOME HOME.removed`), make a token with `svc join-token` on a ' +
      'member, and start it with that: it joins as a new node.'
  },
  node_copied: {
    severity: 'error',
    meaning: 'Two processes run with the key of one node, which is that of a copied home.',
    remediation: COPIED_HOME_REMEDY
  },
  certificate_ending: {
    severity: 'warn',
    meaning: 'The certificate that the API shows ends soon, or has ended.',
    remediation: 'Renew the files of api.tls_cert and api.tls_key; the node reads them again by itself.'
  },
  certificate_unusable: {
    severity: 'warn',
    meaning: 'The certificate of the API is to be another one that cannot be used.',
    remediation: 'Mend the file; the node looks again by itself, and shows the one of before until then.'
  },
  token_in_clear: {
    severity: 'warn',
    meaning: 'A token came over the network in plain HTTP, where others can read it.',
    remediation: 'Run `svc config set api.tls self` on that node and restart it, or put a proxy with TLS ' +
      'before it; then make another token: `svc token revoke ID`, `svc token create`.'
  },
  plugin_changed: {
    severity: 'error',
    meaning: 'Files of an installed plugin are not as they were accepted; it was not loaded.',
    remediation: '`svc plugin verify` names the file; install a good copy, or accept it with --accept.'
  },
  restart_needed: {
    severity: 'warn',
    meaning: 'svc.yaml has changed since this node started.',
    remediation: '`svc restart` applies it.'
  }
} as const satisfies Record<string, ConflictDecl>

const text = { type: 'string' } as const

/** Schema of an event payload with exactly these texts. */
function textsOf (...names: string[]): JsonSchema {
  return {
    type: 'object',
    required: names,
    additionalProperties: false,
    properties: Object.fromEntries(names.map((name) => [name, text]))
  }
}

const nodeEvent = textsOf('nodeId')
const pluginEvent = textsOf('nodeId', 'plugin')
const sessionEvent = {
  type: 'object',
  required: ['sessionId', 'term', 'masterNodeId'],
  additionalProperties: false,
  properties: {
    sessionId: text,
    term: { type: 'integer', minimum: 0 },
    masterNodeId: text,
    previousSessionId: { type: ['string', 'null'] }
  }
} as const

const events = {
  NodeJoined: { plane: 'durable', summary: 'A node became part of the cluster.', payload: nodeEvent },
  NodeTimedOut: {
    plane: 'durable',
    summary: 'The master misses a node; `evidence` says what was seen of it.',
    payload: textsOf('nodeId', 'evidence')
  },
  ProtocolViolation: {
    plane: 'durable',
    summary: 'A node closed its link to one that broke the protocol; `reason` is the name of the close code.',
    payload: textsOf('nodeId', 'reason')
  },
  NodeRemoved: {
    plane: 'durable',
    summary: 'A node was removed from the cluster for good; `name` is what it was called.',
    payload: textsOf('nodeId', 'name')
  },
  MasterElected: { plane: 'durable', summary: 'A node became master.', payload: sessionEvent },
  SessionChanged: {
    plane: 'durable', summary: 'The cluster began another session.', payload: sessionEvent
  },
  StaleDirectiveRefused: {
    plane: 'durable',
    summary: 'A node refused what a master said, since it has promised itself to another.',
    payload: {
      type: 'object',
      required: ['nodeId', 'masterNodeId', 'sessionId', 'term', 'promisedTerm'],
      additionalProperties: false,
      properties: {
        nodeId: text, masterNodeId: text, sessionId: text,
        term: { type: 'integer', minimum: 0 }, promisedTerm: { type: 'integer', minimum: 0 }
      }
    }
  },
  StateDiverged: {
    plane: 'durable',
    summary: 'Two nodes held different data under the same number; it was loaded anew.',
    payload: textsOf('nodeId', 'document')
  },
  NodeRestarted: { plane: 'durable', summary: 'A node was told to restart.', payload: nodeEvent },
  PluginEnabled: {
    plane: 'durable', summary: 'A plugin was switched on in svc.yaml.', payload: pluginEvent
  },
  PluginDisabled: {
    plane: 'durable', summary: 'A plugin was switched off in svc.yaml.', payload: pluginEvent
  },
  PluginChanged: {
    plane: 'durable',
    summary: 'An installed plugin was not loaded, since a file of it is not as it was accepted.',
    payload: textsOf('nodeId', 'plugin', 'file')
  }
} as const satisfies Record<string, EventDecl>

/** The kernel's contributions as a manifest, so that checks and docs treat it like a plugin. */
export const kernelManifest = {
  name: 'kernel',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Loads plugins, serves HTTP, keeps the cluster state.',
  authorities,
  errors: kernelErrors,
  conflicts,
  events,
  routes: systemRoutes,
  stateWhereabouts: ['apiUrl', 'sinkMultiaddr', 'configPath', 'interfaces'],
  stateReadings: ['lastSeen', 'nodeMemory', 'nodeSystem', 'nodeDisk', 'nodeNetwork', 'lastEventAppliedIdx'],
  state: {
    sessionId: 'The cluster session; changes when a new master begins one.',
    masterNodeId: 'The elected master, or null while none is known.',
    localNodeId: 'The node that answered.',
    instances: 'Placed model instances by id.',
    runners: 'Runner states by runner id.',
    downloads: 'Transfers by node.',
    tasks: 'Tasks under way by id, without prompts, text or media.',
    lastSeen: 'Time of the last sign of life by node.',
    topology: 'Transport peers and their connections.',
    tracingEnabled: 'Whether new requests are traced.',
    lastEventAppliedIdx: 'Index of the newest control event this node knows.',
    nodeIdentities: 'Who each node is.',
    node_identities: 'The same map again.',
    nodeMemory: 'Memory by node, bytes.',
    nodeSystem: 'Load, first accelerator and all accelerators by node.',
    nodeDisk: 'Space on the models volume by node, bytes.',
    nodeNetwork: 'Network interfaces by node.',
    nodeHealth: 'Health level and its reasons by node.',
    nodeResources: 'Backends, participation and capability conflicts by node.',
    nodeCapabilities: 'What each node can serve right now.',
    instanceFailures: 'Instances given up, newest first, at most 64.',
    cluster: 'Term, quorum and how many nodes are known and alive.'
  }
} as const satisfies Manifest

/** Ids of the services the kernel provides to every plugin. */
export const kernelServices: ReadonlySet<string> = new Set([
  CapabilityHostService, ClusterService, CommandService, ConfigService, DeclarationService,
  EventTapService, InspectionService, ListenerService, LogRingService, OwnApiService,
  SessionService, StateService, GossipService, TokenService, TracerService, TrafficService, CallerService,
  IdentityService, VitalsService
].map((ref) => ref.id))
