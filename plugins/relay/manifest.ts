import type { Manifest } from '../../kernel/index.js'

export const manifest = {
  name: 'relay',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Lets paired devices reach nodes from elsewhere, through a relay that cannot read what they say.',
  verbs: {
    relay: {
      heading: 'Set it up',
      summary: 'be a relay: bring devices together with nodes that dial out to it; needs no home',
      options: [
        ['--host <address>', 'address to listen at (127.0.0.1 when left out)'],
        ['--port <port>', 'port to listen at (52420 when left out; 0 takes any free one)'],
        ['--tls-key <file>', 'PEM file of the key: the relay then speaks TLS itself'],
        ['--tls-cert <file>', 'PEM file of the certificate and its chain'],
        ['--behind-proxy', 'the address of a client is the last one in X-Forwarded-For'],
        ['--connections <count>', 'connections in all (4096 when left out)'],
        ['--devices <count>', 'devices of one node (64 when left out)'],
        ['--rate <MiB>', 'MiB a second of one node, both ways together (64 when left out)']
      ],
      examples: ['svc relay --host 0.0.0.0 --tls-key relay.key --tls-cert relay.crt'],
      load: () => import('./cli/relay.js')
    }
  }
} as const satisfies Manifest
