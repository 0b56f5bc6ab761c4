import type { ConflictDecl } from '../../kernel/index.js'

/** Health codes of the event log. */
export const conflicts = {
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
