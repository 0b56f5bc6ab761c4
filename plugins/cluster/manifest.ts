import { DeclarationService } from '../../kernel/index.js'
import { verbs } from './cli/verbs.js'
import { clusterRoutes } from './routes.js'
import type { Manifest } from '../../kernel/index.js'

export const manifest = {
  name: 'cluster',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Joins nodes into one cluster: members, links, election and shared documents.',
  consumes: { declared: DeclarationService },
  routes: clusterRoutes,
  verbs
} as const satisfies Manifest
