import {
  ClusterService, durableEvent, EventTapService, SessionService, StateHistoryService, StateService
} from '../../kernel/index.js'
import { routes } from './routes.js'
import { EventLogService } from './service.js'
import type { ConflictDecl, EventDecl, Manifest } from '../../kernel/index.js'

const idx = { type: 'integer', minimum: 0 } as const
const text = { type: 'string' } as const
const moment = {
  type: 'string', minLength: 1, maxLength: 40,
  description: 'A time (ISO-8601), a span back from now such as 10m, or an index of the event log.'
} as const

const events = {
  LogGap: durableEvent(
    'Events from one index to the other were dropped, or counted and not stored; `count` says how many.',
    { from: idx, to: idx, count: { type: 'integer', minimum: 1 } }),
  LogCorrupt: durableEvent(
    'A damaged file of the stored event log was set aside; `from` is the first index it may have had.',
    { nodeId: text, file: text, from: idx, errorMessage: text })
} as const satisfies Record<string, EventDecl>

const conflicts = {
  event_log_unavailable: {
    severity: 'warn',
    meaning: 'Events cannot be stored on this node: it keeps the newest in memory only.',
    remediation: 'Install the package sqlite3 (`npm install sqlite3`), or see what is wrong with the ' +
      'folder events in the home; then restart the node.'
  },
  event_log_degraded: {
    severity: 'warn',
    meaning: 'Events are counted and not written: too little space is free, or the disk fails.',
    remediation: 'Free some space on the volume of the home; writing goes on by itself then.'
  }
} as const satisfies Record<string, ConflictDecl>

export const manifest = {
  name: 'event-log',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Keeps the control events of the whole cluster in one order on every node, and shows them.',
  consumes: {
    tap: EventTapService, cluster: ClusterService, session: SessionService, state: StateService
  },
  provides: { history: StateHistoryService, view: EventLogService },
  routes,
  events,
  conflicts,
  state: { lastEventAppliedIdx: 'Index of the newest control event this node has in its log.' },
  variables: { SVC_EVENTLOG_FLOOR_BYTES: 'Free bytes below which no event is written, for tests.' },
  checks: { eventLog: { summary: 'Whether events are kept.', load: () => import('./cli/doctor.js') } },
  tools: {
    events: {
      summary: 'What happened in the cluster in a time, the last hour where none is given: losses, ' +
        'failures, elections, placements.',
      args: {
        type: 'object', additionalProperties: false,
        properties: {
          from: moment, to: moment,
          about: {
            type: 'string', minLength: 1, maxLength: 200,
            description: 'Only what is about this node, model, instance, request or kind of event.'
          }
        }
      },
      load: () => import('./tools/events.js')
    },
    cluster_then: {
      summary: 'What the cluster was like at an earlier moment: master, nodes, instances.',
      args: { type: 'object', additionalProperties: false, required: ['at'], properties: { at: moment } },
      load: () => import('./tools/then.js')
    }
  },
  verbs: {
    events: {
      heading: 'Watch it',
      summary: 'show what happened in the cluster, or follow it',
      options: [
        ['-f, --follow', 'go on as things happen'],
        ['--since <when>', 'a span such as 10m, a time, or the index after which to begin'],
        ['--kind <kind...>', 'only events of these kinds'],
        ['--node <ref>', 'only events of this node: id, name or local'],
        ['--limit <n>', 'at most so many (200)']
      ],
      examples: ['svc events --since 10m', 'svc events -f --kind NodeTimedOut MasterElected'],
      load: () => import('./cli/events.js')
    }
  }
} as const satisfies Manifest
