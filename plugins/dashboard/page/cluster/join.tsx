// A dialog for adding a machine: shows a short-lived join token, as a command and as a QR code.
import { renderSVG } from 'uqr'
import { Dialog, Snippet, Trouble, useAsk, useNow } from '../ui/parts.js'
import { span } from '../ui/text.js'

export function JoinDialog ({ onClose }: { onClose: () => void }) {
  const { value, error } = useAsk('POST /cluster/join-tokens', [], { body: {} })
  const now = useNow()
  return (
    <Dialog title="Connect a machine" onClose={onClose}>
      <div class="dialog-body">
        {error !== null && <Trouble error={error} />}
        {value !== null && (
          <>
            <p>Install svc there, then run:</p>
            <Snippet label="The command for the new machine" code={value.command} />
            <img
              class="qr" alt="The same token as a QR code" width={220} height={220}
              src={`data:image/svg+xml,${encodeURIComponent(renderSVG(value.token, { border: 2 }))}`}
            />
            <p class="hint">It lets one node in, for {span(Math.max(0, Date.parse(value.expires) - now))}.</p>
          </>
        )}
      </div>
    </Dialog>
  )
}
