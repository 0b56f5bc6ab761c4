import t from 'tap'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { ofRunner, networkSharing } from '../process/peers.js'

const CONNECT = 's = socket.create_connection(("127.0.0.1", int(sys.argv[1]))); time.sleep(60)'
const FIRST = 'import ctypes, socket, sys, threading, time'
/** A thread that unshares its descriptors, so that /proc/PID/fd does not show them. */
const HIDDEN = `${FIRST}
def hidden():
  ctypes.CDLL(None).unshare(0x400)
  ${CONNECT}
threading.Thread(target=hidden).start()`
const MARKED = ['prlimit', '--msgqueue=0:0', '--']
const tools = process.platform === 'linux' &&
  spawnSync('sh', ['-c', 'command -v python3 && command -v prlimit']).status === 0

t.test('who is at the other end', { skip: !tools && 'python3 or prlimit is not installed' }, async (t) => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  t.teardown(() => { server.close(); networkSharing.begun = false })
  networkSharing.begun = true
  const rows: [string, string[], string, boolean][] = [
    ['any program', [], `${FIRST}\n${CONNECT}`, false],
    ['a runner', MARKED, `${FIRST}\n${CONNECT}`, true],
    ['a runner that hides its descriptors', MARKED, HIDDEN, true]
  ]
  for (const [what, before, code, is] of rows) {
    const [command = '', ...args] = [...before, 'python3', '-c', code, `${port}`]
    const child = spawn(command, args, { stdio: 'ignore' })
    const [socket] = await once(server, 'connection') as [Socket]
    socket.on('error', () => {})
    t.equal(ofRunner(socket), is, what)
    child.kill('SIGKILL')
    socket.destroy()
  }
})
