import type { VerbDecl } from '../../../kernel/index.js'

export const verbs = {
  dev: {
    heading: 'Run a cluster',
    summary: 'run a cluster of several nodes on this machine, for trying things out',
    args: '[action] [node]',
    options: [
      ['--nodes <n>', 'how many (3)'],
      ['--base-port <port>', 'first of two ports per node, 0 for any free ones (52415)']
    ],
    examples: [
      'svc dev', 'svc dev --nodes 5 --json', 'svc dev --base-port 0 --home ./trial', 'svc dev start node2'
    ],
    load: () => import('./dev.js')
  },
  nodes: {
    heading: 'Run a cluster',
    summary: 'list the nodes: where they are, master, live or lost, memory, health',
    examples: ['svc nodes', 'svc nodes --json | jq -r \'.nodes[] | select(.live | not) | .name\''],
    load: async () => ({ default: (await import('./members.js')).nodes })
  },
  'join-token': {
    heading: 'Run a cluster',
    summary: 'print a token with which one more machine can join the cluster; list them, or end one',
    args: '[action] [id]',
    options: [
      ['--ttl <span>', 'how long it is good for: 90s, 15m, 2h, 1d (15m)'],
      ['--local', 'for one more node on this machine']
    ],
    examples: ['svc join-token', 'svc join-token --ttl 1h --json', 'svc join-token revoke ID'],
    load: () => import('./join-token.js')
  },
  members: {
    heading: 'Run a cluster',
    summary: 'list the machines that belong to the cluster, or remove one for good',
    args: '[action] [id]',
    examples: ['svc members', 'svc members remove attic'],
    load: async () => ({ default: (await import('./members.js')).members })
  }
} satisfies Record<string, VerbDecl>
