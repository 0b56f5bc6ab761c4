// Where a token is typed in. It stays in the memory of this page and goes to this node only.
import { useState } from 'preact/hooks'
import { notice, origin, token, useToken } from '../link.js'
import { Button, Dialog, Snippet } from './parts.js'

const MAKE_TOKEN = 'svc token create page --authority read invoke cluster:write operator'

function Fields ({ onDone }: { onDone: () => void }) {
  const [text, setText] = useState('')
  return (
    <form
      class="form" onSubmit={(event) => {
        event.preventDefault()
        useToken(text)
        onDone()
      }}
    >
      <label for="token">Token of {origin.value}</label>
      <input
        id="token" type="password" autocomplete="off" spellcheck={false} value={text}
        onInput={({ currentTarget }) => { setText(currentTarget.value) }}
      />
      <p class="hint">
        It is kept in the memory of this page until it is closed, and sent to {origin.value} only.
      </p>
      <button type="submit" class="button main" disabled={text.trim() === ''}>Use it</button>
    </form>
  )
}

export function TokenDialog ({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Token" onClose={onClose}>
      <div class="dialog-body">
        <p>
          Without one you may do what this node lets everyone on its machine do. Changing the cluster
          needs more.
        </p>
        <Fields onDone={onClose} />
        <Snippet label="A token for this page" code={MAKE_TOKEN} />
        {token.value !== null && (
          <Button
            onClick={() => {
              useToken('')
              onClose()
            }}
          >
            Forget the token
          </Button>
        )}
      </div>
    </Dialog>
  )
}

/** What stands in place of a page that this node shows to nobody without a token. */
export function TokenForm () {
  return (
    <section class="section narrow" aria-label="Token">
      <h2>This node wants a token</h2>
      <p>{notice.value}</p>
      <Fields onDone={() => {}} />
      <Snippet label="A token for this page" code={MAKE_TOKEN} />
    </section>
  )
}
