import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { Badge, Button } from '../ui/parts.js'
import { playInto } from '../ui/player.js'
import { bytes, count, span } from '../ui/text.js'
import { save } from '../happened/parts.js'
import { endingOf, isLast, mediaOf } from './frames.js'
import type { Player } from '../ui/player.js'
import type { Frame } from './frames.js'

export interface Arrived { frame: Frame, afterMs: number }

const LISTED = 200

export function Frames ({ frames, running }: { frames: readonly Arrived[], running: boolean }) {
  if (frames.length === 0) return running ? <p role="status" class="hint">No frame yet.</p> : null
  const media = mediaOf(frames.map(({ frame }) => frame))
  const last = frames.at(-1)!
  return (
    <>
      {media.map((piece) => <Media key={piece.type} {...piece} running={running} />)}
      <p class="hint" role="status">
        {count(frames.length, 'frame')}{running ? ' so far' : ` in ${span(last.afterMs)}`}
        {frames.length > LISTED && `; the newest ${LISTED} are shown`}
      </p>
      <ol class="rows" aria-label="Frames">
        {frames.slice(-LISTED).map(({ frame, afterMs }, index) => (
          <li key={frames.length - Math.min(LISTED, frames.length) + index} class="row">
            <div class="when">{span(afterMs)}</div>
            <FrameWords frame={frame} />
          </li>
        ))}
      </ol>
    </>
  )
}

function FrameWords ({ frame }: { frame: Frame }) {
  const { kind, sequence, payload, media, error } = frame.header
  const level = kind === 'failed' || kind === 'error' ? 'error' : isLast(frame) ? 'ok' : 'plain'
  return (
    <div class="grow">
      <p class="row-title">
        <Badge level={level}>{kind}</Badge> <span class="hint">{sequence}</span>
        {media !== null && (
          <span class="hint">
            {media.media_type}, {bytes(media.size)}, {span(media.duration_seconds * 1000)} from
            {' '}{span(media.timestamp_seconds * 1000)}
          </span>
        )}
      </p>
      {payload !== null && payload !== undefined && (
        <p><code class="payload">{JSON.stringify(payload)}</code></p>
      )}
      {error !== null && <p class="problem">{error.message} ({error.reason})</p>}
    </div>
  )
}

interface MediaProps { type: string, bytes: Uint8Array[], size: number, running: boolean }

/** The media of one type: shown or played if the browser supports the type, and offered as a download. */
function Media ({ type, bytes: parts, size, running }: MediaProps) {
  const blob = useMemo(() => running ? null : new Blob(parts as BlobPart[], { type }), [size, type, running])
  return (
    <div class="inline media">
      {type.startsWith('audio/') && <Sound type={type} parts={parts} blob={blob} />}
      {blob !== null && /^(video|image)\//.test(type) && <Picture type={type} blob={blob} />}
      {blob !== null && (
        <Button onClick={() => { save(blob, `answer.${endingOf(type)}`) }}>
          Save {bytes(size)} of {type}
        </Button>
      )}
    </div>
  )
}

/** Plays sound while its frames arrive; `blob` is null until the sound is complete. */
function Sound ({ type, parts, blob }: { type: string, parts: Uint8Array[], blob: Blob | null }) {
  const audio = useRef<HTMLAudioElement>(null)
  const player = useRef<Player | null>(null)
  const given = useRef(0)
  useEffect(() => {
    player.current = playInto(audio.current!, type)
    return () => { player.current?.close() }
  }, [type])
  useEffect(() => {
    for (const part of parts.slice(given.current)) player.current!.push(part as Uint8Array<ArrayBuffer>)
    given.current = parts.length
    if (blob !== null) player.current!.end(blob)
  }, [parts.length, blob])
  return <audio ref={audio} controls aria-label={type} />
}

function Picture ({ type, blob }: { type: string, blob: Blob }) {
  const [url, setUrl] = useState<string | null>(null)
  useEffect(() => {
    const made = URL.createObjectURL(blob)
    setUrl(made)
    return () => { URL.revokeObjectURL(made) }
  }, [blob])
  if (url === null) return null
  return type.startsWith('video/')
    ? <video controls src={url} aria-label={type} />
    : <img src={url} alt={`Picture of the answer: ${type}`} />
}
