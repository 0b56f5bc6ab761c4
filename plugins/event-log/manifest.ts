import {
  closedObject, ClusterService, durableEvent, EventTapService, SessionService, StateHistoryService,
  StateService
} from '../../kernel/index.js'
import { routes } from './routes.js'
import { EventLogService } from './service.js'
import type { ConflictDecl, EventDecl, Manifest } from '../../kernel/index.js'

const idx = { type: 'integer', minimum: 0 } as const
const text = { type: 'string' } as const
const moment = {
  type: 'string', minLength: 1, maxLength: 40,
  description: 'A time (ISO-8601), a duration before now such as 10m, or an index of the event log.'
} as const

const events = {
  LogGap: durableEvent(
    'Events from one index to the other were dropped, or counted and not stored; `count` is their number.',
    { from: idx, to: idx, count: { type: 'integer', minimum: 1 } }),
  LogCorrupt: durableEvent(
    'A damaged file of the stored event log was set aside; `from` is the first index it may have had.',
    { nodeId: text, file: text, from: idx, errorMessage: text })
} as const satisfies Record<string, EventDecl>

const conflicts = {
  event_log_unavailable: {
    severity: 'warn', meaning: 'This node cannot store events: the newest are in memory only.',
    remediation: 'Install the package sqlite3 (`npm install sqlite3`), or fix the ' +
      'folder events in the home; then restart the node.'
  },
  event_log_degraded: {
    severity: 'warn',
    meaning: 'Events are counted but not stored: not enough disk space is free, or the disk fails.',
    remediation: 'Free disk space on the volume of the home; writing then resumes automatically.'
  }
} as const satisfies Record<string, ConflictDecl>

export const manifest = {
  name: 'event-log', version: '1.0.0', kernel: '^1.0.0',
  summary: 'Stores the control events of the whole cluster in one order on every node, and shows them.',
  consumes: { tap: EventTapService, cluster: ClusterService, session: SessionService, state: StateService },
  provides: { history: StateHistoryService, view: EventLogService }, routes, events, conflicts,
  state: { lastEventAppliedIdx: 'Index of the newest control event in the log of this node.' },
  variables: { SVC_EVENTLOG_FLOOR_BYTES: 'Free bytes below which no event is written, for tests.' },
  checks: { eventLog: { summary: 'Whether events are stored.', load: () => import('./cli/doctor.js') } },
  tools: {
    events: {
      summary: 'The events of the cluster in a period, by default the last hour: losses, ' +
        'failures, elections, placements.',
      finds: { past: true, args: { notable: true } },
      args: closedObject({
        from: moment, to: moment,
        notable: { type: 'boolean', description: 'Only losses, failures and decisions, and what repeats.' },
        about: {
          type: 'string', minLength: 1, maxLength: 200,
          description: 'Only events about this node, model, instance or request, or of this kind.'
        }
      }, []),
      load: () => import('./tools/events.js')
    },
    cluster_then: {
      summary: 'The state of the cluster at an earlier time: master, nodes, instances.',
      args: closedObject({ at: moment }),
      load: () => import('./tools/then.js')
    }
  },
  verbs: {
    events: {
      heading: 'Watch it', summary: 'show the events of the cluster, or follow them',
      options: [
        ['-f, --follow', 'follow new events'],
        ['--since <when>', 'a duration such as 10m, a time, or the index to start after'],
        ['--kind <kind...>', 'only events of these kinds'],
        ['--node <ref>', 'only events of this node: id, name or local'],
        ['--limit <n>', 'maximum number of events (200)']
      ],
      examples: ['svc events --since 10m', 'svc events -f --kind NodeTimedOut MasterElected'],
      load: () => import('./cli/events.js')
    }
  }
} as const satisfies Manifest
