// The token input. The token stays in the memory of this page and is sent to this node only.
import { useState } from 'preact/hooks'
import { device, signs } from '../device/own.js'
import { PairThis } from '../device/pair.js'
import { origin, typed, useToken } from '../link.js'
import { linkTo } from '../route.js'
import { Button, Dialog, Field, Form, Snippet, useClose } from './parts.js'

/** How to sign in without a token. */
const SignIn = () => (
  <>
    <p>On the node's machine this prints an address. Opened here, it signs this browser in:</p>
    <Snippet label="Prints an address that signs a browser in" code="svc open" />
  </>
)

function Fields ({ onDone }: { onDone: () => void }) {
  const [text, setText] = useState('')
  return (
    <Form
      onSubmit={() => {
        useToken(text)
        onDone()
      }}
    >
      <Field
        label={`Token of ${origin.value}`} type="password" spellcheck={false} value={text} onText={setText}
      />
      <p class="hint">
        It is kept in the memory of this page until it is closed, and sent to {origin.value} only.
      </p>
      <button type="submit" class="button main" disabled={text.trim() === ''}>Use it</button>
    </Form>
  )
}

export function TokenDialog () {
  const close = useClose()
  return (
    <Dialog title="Token">
      <div class="dialog-body">
        {signs()
          ? <p>This page goes as the device {device.value!.grant.name}. A token counts in its place.</p>
          : (
              <p>
                Without one you may do what this node lets everyone on its machine do. Changing the cluster
                needs more.
              </p>
            )}
        <p class="hint">
          A <a href={linkTo('settings', 'devices')} onClick={close}>paired device</a> needs no token.
        </p>
        <SignIn />
        <Fields onDone={close} />
        {typed.value !== null && (
          <Button
            onClick={() => {
              useToken('')
              close()
            }}
          >
            Forget the token
          </Button>
        )}
      </div>
    </Dialog>
  )
}

export function AccessForm () {
  return (
    <>
      <section class="section narrow" aria-label="Sign in">
        <h2>This node does not know you</h2>
        <SignIn />
      </section>
      <section class="section narrow" aria-label="Pair this device">
        <h3>Or compare six digits</h3>
        <PairThis />
      </section>
      <section class="section narrow" aria-label="Token">
        <h3>Or use a token</h3>
        <Fields onDone={() => {}} />
      </section>
    </>
  )
}
