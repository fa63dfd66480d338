//! Headings of scripts without capitals, without spaces, and with digits of their own: their look decides.

use super::fixture::{Doc, FixtureLine, line, outline_of};

// Titles of chapter 1, 1.1 and 2, digits of the script, and a sentence.
const SCRIPTS: [(&str, [&str; 3], &str, &str); 16] = [
    (
        "Hebrew",
        ["מבוא", "סיכון אשראי", "דת"],
        "0123456789",
        "החברה פועלת בתחום הפיננסי.",
    ),
    (
        "Arabic",
        ["مقدمة", "مخاطر الائتمان", "النتائج"],
        "٠١٢٣٤٥٦٧٨٩",
        "تعمل الشركة في القطاع المالي.",
    ),
    (
        "Urdu",
        ["تعارف", "پس منظر", "خطرات"],
        "۰۱۲۳۴۵۶۷۸۹",
        "کمپنی مالیاتی شعبے میں کام کرتی ہے۔",
    ),
    (
        "Devanagari",
        ["परिचय", "ऋण जोखिम", "परिणाम"],
        "०१२३४५६७८९",
        "कंपनी वित्तीय क्षेत्र में काम करती है।",
    ),
    (
        "Bengali",
        ["ভূমিকা", "ঋণ ঝুঁকি", "মূলধন"],
        "০১২৩৪৫৬৭৮৯",
        "কোম্পানি আর্থিক খাতে কাজ করে।",
    ),
    (
        "Tamil",
        ["அறிமுகம்", "கடன் அபாயம்", "பங்கு"],
        "௦௧௨௩௪௫௬௭௮௯",
        "நிறுவனம் நிதித் துறையில் செயல்படுகிறது.",
    ),
    (
        "Thai",
        ["บทนำ", "ความเสี่ยงด้านเครดิต", "ผลการดำเนินงาน"],
        "๐๑๒๓๔๕๖๗๘๙",
        "บริษัทดำเนินธุรกิจในภาคการเงิน",
    ),
    (
        "Khmer",
        ["សេចក្តីផ្តើម", "ហានិភ័យឥណទាន", "មូលធន"],
        "០១២៣៤៥៦៧៨៩",
        "ក្រុមហ៊ុនដំណើរការក្នុងវិស័យហិរញ្ញវត្ថុ។",
    ),
    (
        "Burmese",
        ["နိဒါန်း", "ချေးငွေအန္တရာယ်", "ရလဒ်များ"],
        "၀၁၂၃၄၅၆၇၈၉",
        "ကုမ္ပဏီသည်ဘဏ္ဍာရေးကဏ္ဍတွင်လုပ်ဆောင်သည်။",
    ),
    (
        "Georgian",
        ["შესავალი", "საკრედიტო რისკი", "კაპიტალი"],
        "0123456789",
        "კომპანია მუშაობს ფინანსურ სექტორში.",
    ),
    (
        "Ethiopic",
        ["መግቢያ", "የብድር አደጋ", "ካፒታል"],
        "0123456789",
        "ኩባንያው በፋይናንስ ዘርፍ ይሰራል።",
    ),
    (
        "Armenian",
        ["Ներածություն", "Վարկային Ռիսկ", "Կապիտալ"],
        "0123456789",
        "Ընկերությունը գործում է։",
    ),
    (
        "Greek",
        ["Εισαγωγή", "Πιστωτικός Κίνδυνος", "Κεφάλαια"],
        "0123456789",
        "Η εταιρεία δραστηριοποιείται.",
    ),
    (
        "Chinese",
        ["简介", "信用风险", "股东权益"],
        "0123456789",
        "公司在金融领域经营业务。",
    ),
    (
        "Japanese",
        ["はじめに", "信用リスク", "純資産"],
        "０１２３４５６７８９",
        "当社は金融分野で事業を展開しております。",
    ),
    (
        "Korean",
        ["개요", "신용 위험", "자본"],
        "0123456789",
        "회사는 금융 부문에서 사업을 운영합니다.",
    ),
];

const NUMBERS: [&str; 3] = ["1", "1.1", "2"];

fn titles([one, two, three]: [&str; 3], digits: &str) -> [String; 3] {
    let native = |number: &str| -> String {
        let digit = |c: char| {
            c.to_digit(10)
                .and_then(|value| digits.chars().nth(value as usize))
        };
        number.chars().map(|c| digit(c).unwrap_or(c)).collect()
    };
    [one, two, three]
        .iter()
        .zip(NUMBERS)
        .map(|(title, number)| format!("{} {title}", native(number)))
        .collect::<Vec<_>>()
        .try_into()
        .unwrap()
}

fn outline(
    titles: &[String; 3],
    sentence: &str,
    look: fn(FixtureLine, bool) -> FixtureLine,
) -> Vec<(u16, String)> {
    let mut doc = Doc::new(2);
    for (at, title) in titles.iter().enumerate() {
        let page = usize::from(at == 2);
        doc.prose(page, 10.0, 4);
        doc.add(page, look(line(title), at != 1));
        doc.prose(page, 10.0, 4);
        doc.add(page, line(&format!("{sentence} ").repeat(3)));
    }
    outline_of(&doc)
        .into_iter()
        .map(|(_, level, title)| (level, title))
        .collect()
}

#[test]
fn numbered_headings_of_any_script_are_found_by_their_look() {
    let looks: [fn(FixtureLine, bool) -> FixtureLine; 3] = [
        |line, is_high| line.bold().size(if is_high { 14.0 } else { 10.0 }),
        |line, is_high| line.size(if is_high { 16.0 } else { 13.0 }),
        // Only the number and the space around it.
        |line, _| line,
    ];
    for (script, names, digits, sentence) in SCRIPTS {
        for digits in ["0123456789", digits] {
            let titles = titles(names, digits);
            let expected = [1, 2, 1].into_iter().zip(titles.clone());
            for look in looks {
                assert_eq!(
                    outline(&titles, sentence, look),
                    expected.clone().collect::<Vec<_>>(),
                    "{script}"
                );
            }
        }
    }
}

#[test]
fn sentences_and_steps_of_any_script_are_no_headings() {
    for (script, names, digits, sentence) in SCRIPTS {
        let mut doc = Doc::new(1);
        doc.prose(0, 10.0, 4);
        doc.add(0, line(names[0]).bold().size(14.0));
        doc.prose(0, 10.0, 4);
        // Steps set apart by space, whose numbers go on.
        for number in ["1", "2", "3"] {
            doc.add(0, line(""));
            let step = titles([names[2]; 3], digits)[0].replacen(['1', '١', '۱', '१'], number, 1);
            doc.add(
                0,
                line(&format!("{}.{}", number, &step[step.find(' ').unwrap()..])),
            );
        }
        doc.prose(0, 10.0, 4);
        doc.add(0, line(sentence));
        doc.prose(0, 10.0, 4);
        let found: Vec<String> = outline_of(&doc)
            .into_iter()
            .map(|(.., title)| title)
            .collect();
        assert_eq!(found, [names[0]], "{script}");
    }
}
