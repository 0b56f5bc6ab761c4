import t from 'tap'
import { createServer, type AddressInfo } from 'node:net'
import { once } from 'node:events'
import { listeningInodes, portHolder } from '../cli/ports.js'

const table = `  sl  local_address rem st queue tr retr uid timeout inode
   0: 0100007F:CCBC 00000000:0000 0A 0:0 00:0 0 0 0 111 1 0 100 0
   1: 0100007F:CCBC 0100007F:1234 01 0:0 00:0 0 0 0 222 1 0 100 0
   2: 00000000:0050 00000000:0000 0A 0:0 00:0 0 0 0 333 1 0 100 0
`

t.test('listening sockets of a port', async (t) => {
  const check = (port: number, inodes: string[]): void => {
    t.same(listeningInodes(table, port), inodes, String(port))
  }
  check(52412, ['111'])
  check(80, ['333'])
  check(81, [])
  t.same(listeningInodes('', 80), [])
})

t.test('this process is found on a port it listens on', async (t) => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  t.match(portHolder(port), { pid: process.pid, command: /node/ })
  await new Promise((resolve) => { server.close(resolve) })
  t.equal(portHolder(port), undefined)
})
