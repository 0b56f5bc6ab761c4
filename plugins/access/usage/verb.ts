import type { VerbDecl } from '../../../kernel/index.js'

export const usageVerb = {
  heading: 'Run a cluster',
  summary: 'show who used which model how much',
  options: [
    ['--by <what>', 'key, model, day or node (default: key)'],
    ['--since <when>', 'first day: 7d, or a date such as 2027-01-31 (default: 7 days)'],
    ['--csv', 'print comma-separated values']
  ],
  examples: ['svc usage', 'svc usage --by model --since 30d --csv'],
  load: () => import('../cli/usage.js')
} as const satisfies VerbDecl
