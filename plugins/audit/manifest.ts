import { AuditService, ClusterService, durableEvent, OwnApiService } from '../../kernel/index.js'
import { routes } from './routes.js'
import type { Manifest } from '../../kernel/index.js'

const text = { type: 'string' } as const

export const manifest = {
  name: 'audit',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Keeps who changed what, in a chain of records on every node that shows what was tampered with.',
  consumes: { cluster: ClusterService, own: OwnApiService },
  provides: { audit: AuditService },
  routes,
  events: {
    AuditRecorded: durableEvent(
      'A record of the audit of the node with the install id `node`, as it stands in that node\'s chain.',
      {
        seq: { type: 'integer', minimum: 1 }, at: text, node: text, who: text, how: text, what: text,
        detail: { type: 'object' }, prev: text, hash: text
      })
  },
  conflicts: {
    audit_unavailable: {
      severity: 'error',
      meaning: 'Changes cannot be recorded on this node, and so none is made through it.',
      remediation: 'Free space on the volume of the home, or see what is wrong with the folder audit in ' +
        'it. The next change tries again.'
    },
    audit_contradiction: {
      severity: 'error',
      meaning: 'A node tells something else of its audit than before: records were removed or replaced.',
      remediation: '`svc audit verify` names the record. A home that was restored from a backup does so, too.'
    }
  },
  verbs: {
    audit: {
      heading: 'Run a cluster',
      summary: 'show who changed what; verify that nothing of it was tampered with; export it',
      args: '[verify|export] [file]',
      options: [
        ['--since <when>', 'changes from this time on: a span such as 2d, or a time'],
        ['--who <id>', 'only by this caller: local, operator, or the id of a token or device'],
        ['--node <ref>', 'only what entered at this node: id, name or local'],
        ['--limit <n>', 'at most so many of the newest (100)']
      ],
      examples: [
        'svc audit --since 2d', 'svc audit --who app_0123456789ab --json', 'svc audit verify',
        'svc audit export > chain.jsonl', 'svc audit verify chain.jsonl'
      ],
      load: () => import('./cli/audit.js')
    }
  }
} as const satisfies Manifest
