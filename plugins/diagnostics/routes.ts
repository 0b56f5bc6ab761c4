import type { RouteDecl } from '../../kernel/index.js'

const list = { type: 'array', items: { type: 'object' } } as const

export const routes = {
  node: {
    method: 'GET', url: '/v1/diagnostics/node', authority: 'operator',
    summary: 'What goes on inside this node: process, runners with their pids, plugins, warnings.',
    reply: {
      type: 'object', additionalProperties: false,
      required: [
        'generatedAt', 'runtime', 'resources', 'processes', 'supervisorRunners', 'placements',
        'plugins', 'warnings'
      ],
      properties: {
        generatedAt: { type: 'string' },
        runtime: { type: 'object', required: ['nodeId', 'pid', 'isMaster'] },
        resources: { type: 'object' },
        processes: list,
        supervisorRunners: list,
        placements: list,
        plugins: list,
        warnings: { type: 'array', items: { type: 'string' } }
      }
    }
  }
} as const satisfies Record<string, RouteDecl>
