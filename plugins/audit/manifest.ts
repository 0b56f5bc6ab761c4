import { AuditService, ClusterService, durableEvent, OwnApiService } from '../../kernel/index.js'
import { routes } from './routes.js'
import type { Manifest } from '../../kernel/index.js'

const text = { type: 'string' } as const

export const manifest = {
  name: 'audit', version: '1.0.0', kernel: '^1.0.0',
  summary: 'Records who changed what, in a hash chain on every node that reveals tampering.',
  consumes: { cluster: ClusterService, own: OwnApiService }, provides: { audit: AuditService }, routes,
  events: {
    AuditRecorded: durableEvent(
      'An audit record, as in the chain of the node with the install id `node`.',
      {
        seq: { type: 'integer', minimum: 1 }, at: text, node: text, who: text, how: text, what: text,
        detail: { type: 'object' }, prev: text, hash: text
      })
  },
  conflicts: {
    audit_unavailable: {
      severity: 'error', meaning: 'Changes cannot be recorded on this node, so it refuses them.',
      remediation: 'Free disk space on the volume of the home, or check the folder audit in it. The ' +
        'next change retries.'
    }
  },
  verbs: {
    audit: {
      heading: 'Run a cluster', summary: 'show who changed what; verify the records', args: '[verify]',
      options: [
        ['--since <when>', 'changes since then: a duration such as 2d, or a time'],
        ['--who <id>', 'only changes by this caller: local, operator, or the id of a token or device'],
        ['--node <ref>', 'only changes through this node: id, name or local'],
        ['--limit <n>', 'how many of the newest changes (default 100)']
      ],
      examples: ['svc audit --since 2d', 'svc audit --who app_0123456789ab --json', 'svc audit verify'],
      load: () => import('./cli/audit.js')
    }
  }
} as const satisfies Manifest
