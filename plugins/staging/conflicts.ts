import type { ConflictDecl } from '../../kernel/index.js'

/** Health codes of models on disk. */
export const conflicts = {
  download_failed: {
    severity: 'error',
    meaning: 'The last transfer of a model to this node failed.',
    remediation: '`svc downloads` shows the cause; staging it again clears this.'
  },
  second_store: {
    severity: 'warn',
    meaning: 'Another node has a store, too: a cluster uses one, so models of the other are not found.',
    remediation: 'Take model_store.store_path out of svc.yaml on all nodes but one, then restart them.'
  },
  staging_unusable: {
    severity: 'error',
    meaning: 'The folder of staged copies or of the store cannot be used.',
    remediation: 'Make node_cache_path and model_store.store_path writable folders, neither in the other, ' +
      'then restart the node.'
  }
} as const satisfies Record<string, ConflictDecl>
