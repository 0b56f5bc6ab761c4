import { useEffect, useRef, useState } from 'preact/hooks'
import { pairWith, type PairOptions } from '../../../devices/signing/pair.js'
import { send } from '../api.js'
import { origin, useToken, home, notice } from '../link.js'
import { Button, Dialog, Field, Form, Snippet, Trouble, useClose } from '../ui/parts.js'
import { done, failed } from '../ui/toast.js'
import { keep, newKeys, selfOf } from './own.js'
import { browserName, spaced } from './words.js'

const MOST_LETTERS = 60

/** `answer` takes the user's reply: whether the node shows the same digits. */
interface Shown { digits: string, node: string, answer: (same: boolean) => void }

export const PairDialog = () => (
  <Dialog title="Pair this device"><div class="dialog-body"><PairThis /></div></Dialog>
)

export function PairThis () {
  const close = useClose()
  const [name, setName] = useState(browserName(navigator.userAgent))
  const [stage, setStage] = useState<'idle' | 'asking' | Shown>('idle')
  const [error, setError] = useState<Error | null>(null)
  const abort = useRef(new AbortController())
  useEffect(() => () => { abort.current.abort() }, [])
  if (!globalThis.isSecureContext) return <NeedsTls />
  const begin = async (): Promise<void> => {
    const { signal } = abort.current = new AbortController()
    setError(null)
    setStage('asking')
    try {
      await pairHere(name.trim(), signal, {
        compare: async (digits, node) => await new Promise((resolve, reject) => {
          signal.addEventListener('abort', () => { reject(signal.reason as Error) })
          setStage({ digits, node, answer: resolve })
        })
      })
      done('This device is paired.')
      close()
    } catch (cause) {
      if (!signal.aborted) setError(asSentence(cause as Error))
    }
    setStage('idle')
  }
  if (typeof stage === 'object') {
    return <Compare shown={stage} onLeave={() => { abort.current.abort() }} />
  }
  return (
    <Form onSubmit={() => { void begin() }}>
      <p>
        It gets a key of its own in place of a token. Its operator first opens the pairing
        at <code>{origin.value}</code>: under Settings, Devices, or on that machine with
      </p>
      <Snippet label="Opens the pairing on the node's machine" code="svc pair" />
      <Field label="What this device is called" value={name} maxLength={MOST_LETTERS} onText={setName} />
      {error !== null && <Trouble error={error} />}
      <div class="inline">
        <button type="submit" class="button main" disabled={stage !== 'idle' || name.trim() === ''}>
          Pair this device
        </button>
      </div>
    </Form>
  )
}

/** Pairs this browser with the page's node, then reconnects to the node as the paired device. */
export async function pairHere (
  name: string, signal: AbortSignal, how: Pick<PairOptions, 'code' | 'compare'>
): Promise<void> {
  const url = origin.value
  const keys = await newKeys().catch(() => {
    throw new Error('This browser cannot make the keys. Chrome 137, Firefox 130, Safari 17 and newer can.')
  })
  async function ask<T> (path: string, body?: object): Promise<T> {
    const options = { signal, ...body === undefined ? {} : { body } }
    return await (await send({ origin: url, token: null }, path, options)).json() as T
  }
  const paired = await pairWith({
    keys: selfOf(keys), url, name, ask, ...how,
    pause: async (ms) => {
      await new Promise((resolve) => setTimeout(resolve, ms))
      signal.throwIfAborted()
    }
  })
  await keep({ ...keys, ...paired })
  // Remove the typed token, so that the page reconnects as the device.
  useToken('')
}

function Compare ({ shown, onLeave }: { shown: Shown, onLeave: () => void }) {
  const { answer, digits, node } = shown
  const [agreed, setAgreed] = useState(false)
  const agree = (): void => { setAgreed(true); answer(true) }
  return (
    <div class="form">
      <p>Node {node} has to show the same six digits:</p>
      <p class="digits" role="status" aria-label="Six digits">{spaced(digits)}</p>
      <p class="hint">
        Both sides must say yes, and only if they are the same. If they differ somebody sits between the two:
        say no, and look at the network.
      </p>
      {agreed && <p class="waiting-line">Waiting for the operator…</p>}
      <div class="inline">
        {agreed
          ? <Button onClick={onLeave}>Give up</Button>
          : <Button kind="danger" onClick={() => { answer(false) }}>They differ</Button>}
        {!agreed && <Button kind="main" onClick={agree}>They are the same</Button>}
      </div>
    </div>
  )
}

/** Turns a lower-case CLI message into a sentence. */
function asSentence (error: Error): Error {
  const { message: text } = error
  error.message = `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.?!]$/.test(text) ? '' : '.'}`
  return error
}

/** Explains how to enable TLS: browsers store no keys for pages from other machines over plain HTTP. */
function NeedsTls () {
  const there = origin.value.replace(/^http:/, 'https:')
  return (
    <div class="form">
      <p>
        This page came over plain HTTP from another machine, and there browsers let no page have a key. On the
        node's machine switch TLS on, then restart the node:
      </p>
      <Snippet label="Switches TLS on" code="svc config set api.tls self" />
      <p>Then open <a href={`${there}/${location.hash}`}>{there}</a> and pair this device there.</p>
    </div>
  )
}

const LIMIT_MS = 30_000

/** The code in the page's address, which is removed from there and from the history; null without one. */
export function takeCode (): string | null {
  const code = /^#sign-in=([\w-]+)$/.exec(location.hash)?.[1] ?? null
  if (code === null) return null
  history.replaceState(null, '', '#/')
  dispatchEvent(new Event('hashchange'))
  return code
}

/**
 * Signs this browser in with the code in the address that `svc open` printed.
 * Over TLS and on the node's own machine this browser becomes a device. Elsewhere browsers let no page have a
 * key, so the page gets a token that it keeps in memory.
 */
export async function signIn (code: string): Promise<void> {
  const signal = AbortSignal.timeout(LIMIT_MS)
  try {
    if (globalThis.isSecureContext) {
      return await pairHere(browserName(navigator.userAgent), signal, { code, compare: async () => true })
    }
    const options = { body: { code }, signal }
    const answer = await send({ origin: home, token: null }, '/v1/devices/sign-in/token', options)
    useToken((await answer.json() as { token: string }).token)
    notice.value = 'You are signed in until this page is closed or loaded again. To stay signed in, ' +
      'switch TLS on at the node: `svc config set api.tls self`, restart it, and run `svc open` again.'
  } catch (error) {
    // A notice would be replaced by the node's refusal a moment later.
    failed(error)
  }
}
