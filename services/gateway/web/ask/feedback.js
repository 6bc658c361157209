// Thumbs on an answer, and a comment if the person likes.

import { call } from "../gateway/api.js";
import { problemOf } from "../gateway/problem.js";
import { icon, make } from "../ui/dom.js";
import { announce } from "../ui/live.js";
import { text } from "../texts/texts.js";

let offered = true;

// {buttons, form} for `turn`; `keep` stores what was said with the conversation.
export function feedbackOn(turn, keep) {
  const form = make("form", { class: "feedback", hidden: true });
  const buttons = offered && turn.summary?.answer_id ? ["up", "down"].map((rating) => thumb(rating)) : [];

  function thumb(rating) {
    const said = text(rating === "up" ? "helpful" : "notHelpful");
    return make(
      "button",
      {
        type: "button",
        class: "quiet small thumb",
        "aria-label": said,
        title: said,
        "aria-pressed": String(turn.feedback?.rating === rating),
        onclick: () => give(rating, turn.feedback?.comment ?? ""),
      },
      icon(rating),
    );
  }

  async function give(rating, comment) {
    try {
      await call("POST", "/feedback", { answer_id: turn.summary.answer_id, rating, ...(comment ? { comment } : {}) });
    } catch (error) {
      return failed(error);
    }
    turn.feedback = { rating, comment };
    await keep();
    buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(rating === ["up", "down"][index])));
    announce(text("feedbackKept"));
    if (comment) thanked();
    else askWhy(rating);
  }

  function failed(error) {
    // This gateway does not offer it. A 404 of another code means that the answer is not known any more.
    if (error.status === 501 || (error.status === 404 && error.code !== "not_found")) {
      offered = false;
      document.querySelectorAll(".thumb").forEach((button) => button.remove());
      return announce(text("feedbackNotOffered"));
    }
    const { title } = problemOf(error);
    form.replaceChildren(make("p", { class: "bad" }, error.status === 404 ? text("feedbackTooLate") : title));
    form.hidden = false;
    announce(title);
  }

  function askWhy(rating) {
    const comment = make("textarea", {
      rows: 2,
      maxlength: 2000,
      "aria-label": text(rating === "up" ? "whatWasGood" : "whatWasWrong"),
      placeholder: text(rating === "up" ? "whatWasGood" : "whatWasWrong"),
    });
    form.replaceChildren(
      comment,
      make(
        "div",
        { class: "row end" },
        make(
          "button",
          {
            type: "button",
            class: "quiet",
            onclick: () => {
              form.hidden = true;
            },
          },
          text("noComment"),
        ),
        make("button", { type: "submit" }, text("sendComment")),
      ),
    );
    form.onsubmit = (event) => {
      event.preventDefault();
      if (comment.value.trim()) give(rating, comment.value.trim());
    };
    form.hidden = false;
    comment.focus();
  }

  function thanked() {
    form.replaceChildren(make("p", { class: "hint", tabindex: -1 }, text("thanks")));
    form.firstChild.focus();
  }

  return { buttons, form };
}
