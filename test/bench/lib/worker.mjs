/**
 * Child processes that measure. Each loads one subject (an engine, a peer, a load generator), so that no
 * process has two copies of onnxruntime.
 */
import { fork } from 'node:child_process'
import { join } from 'node:path'
import { here } from './paths.mjs'

/** Starts `workers/<name>.mjs` and waits until it has loaded. `ask(message)` resolves to its answer. */
export async function startWorker (name, options = {}) {
  const env = { ...process.env }
  delete env.NODE_OPTIONS
  const child = fork(join(here, 'workers', `${name}.mjs`), [JSON.stringify(options)], {
    env,
    execArgv: options.execArgv ?? [],
    stdio: ['ignore', 'ignore', 'pipe', 'ipc']
  })
  let said = ''
  child.stderr.on('data', (bytes) => {
    said = (said + bytes).slice(-4000)
  })
  let next = () => {}
  child.on('message', (message) => {
    next(message)
  })
  const gone = new Promise((_resolve, reject) => {
    child.once('exit', (code, signal) => {
      reject(new Error(`worker ${name} ended with ${signal ?? code}: ${said.trim()}`))
    })
  })
  gone.catch(() => {})
  const answer = () =>
    Promise.race([
      gone,
      new Promise((resolve, reject) => {
        next = (message) => {
          message.error === undefined ? resolve(message) : reject(new Error(`${name}: ${message.error}`))
        }
      })
    ])
  const ready = await answer()
  return {
    pid: child.pid,
    ready,
    ask (message) {
      child.send(message)
      return answer()
    },
    async stop () {
      const ended = new Promise((resolve) => {
        child.once('exit', resolve)
      })
      if (child.connected) child.disconnect()
      else child.kill('SIGKILL')
      await ended
    }
  }
}

/** Runs in the child; `load(options)` resolves to a function that answers messages. */
export async function serveWorker (load) {
  const send = (message) => {
    if (process.connected) process.send(message)
  }
  const reply = async (work) => {
    try {
      send((await work()) ?? {})
    } catch (error) {
      send({ error: error.stack ?? String(error) })
    }
  }
  process.on('disconnect', () => {
    process.exit(0)
  })
  let handle
  await reply(async () => {
    const loaded = await load(JSON.parse(process.argv[2] ?? '{}'))
    handle = loaded.handle
    return loaded.ready
  })
  process.on('message', (message) => {
    reply(() => handle(message)).catch(() => {})
  })
}
